//go:build !linux

package space

import "os"

// preallocate allocates n bytes of real blocks for f by writing them.
func preallocate(f *os.File, n int64) error {
	buf := make([]byte, 1<<20)
	for n > 0 {
		k, err := f.Write(buf[:min(n, int64(len(buf)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}
