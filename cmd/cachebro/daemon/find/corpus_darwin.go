package find

import (
	"errors"
	"io/fs"
	"os"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/search"
	"cachebro/store/wire"
)

func readBeneath(dir *os.File, p string, _ []byte) ([]byte, error) {
	f, err := source.OpenBeneath(dir, p, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := source.StatOf(f)
	if err != nil {
		return nil, err
	}
	if !st.IsRegular() {
		return nil, fs.ErrNotExist
	}
	b, _, err := source.ReadStable(f, st)
	if errors.Is(err, wire.ErrTooLarge) {
		err = search.ErrTooLarge
	}
	return b, err
}
