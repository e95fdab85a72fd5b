//go:build !linux

package apply

import "golang.org/x/sys/unix"

// exchange swaps two names atomically. If the volume does not support that (HFS+, network
// volumes), the plan changes neither name and reports it.
func exchange(from int, name string, to int, other string) error {
	return unix.RenameatxNp(from, name, to, other, unix.RENAME_SWAP)
}
