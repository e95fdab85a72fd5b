//go:build !linux

package apply

import "syscall"

// exchange is not offered: a plan then leaves both names as they are, and says so.
func exchange(from int, name string, to int, other string) error { return syscall.ENOTSUP }
