package ignore

import (
	"fmt"
	"os"
	"syscall"
)

// openRoot opens the directory again through its descriptor. A later mount over its path then has
// no effect.
func openRoot(dir *os.File) (*os.Root, error) {
	root, err := os.OpenRoot(fmt.Sprintf("%s/%d", ownFDs, dir.Fd()))
	if err != nil {
		root, err = os.OpenRoot(dir.Name())
		if err != nil {
			return nil, fmt.Errorf("open the source for its ignore rules: %w", err)
		}
	}
	return root, nil
}

func inodeOf(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
