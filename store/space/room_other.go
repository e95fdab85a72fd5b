//go:build !linux

package space

import "os"

// preallocate writes n bytes to f to allocate their blocks.
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
