//go:build !linux

package storage

import "golang.org/x/sys/unix"

// exchange makes two directories change places, in one step.
func exchange(a, b string) error {
	return unix.RenamexNp(a, b, unix.RENAME_SWAP)
}
