package daemon

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"cachebro/search"
	"cachebro/store/wire"
)

// readBeneath reads a regular file.
func readBeneath(dir *os.File, p string, _ []byte) ([]byte, error) {
	f, err := openBeneath(dir, p, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := statOf(f)
	if err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, fs.ErrNotExist
	}
	b, _, err := readStable(f, st)
	if errors.Is(err, wire.ErrTooLarge) {
		err = search.ErrTooLarge
	}
	return b, err
}
