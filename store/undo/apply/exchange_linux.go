package apply

import "golang.org/x/sys/unix"

func exchange(from int, name string, to int, other string) error {
	return unix.Renameat2(from, name, to, other, unix.RENAME_EXCHANGE)
}
