//go:build !linux

package apply

import "golang.org/x/sys/unix"

// exchange: where the volume cannot (HFS+ and networks'), a plan leaves both names as they
// are, and says so.
func exchange(from int, name string, to int, other string) error {
	return unix.RenameatxNp(from, name, to, other, unix.RENAME_SWAP)
}
