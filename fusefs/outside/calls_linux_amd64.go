package outside

import "golang.org/x/sys/unix"

const (
	sysRmdir  = unix.SYS_RMDIR
	sysLchown = unix.SYS_LCHOWN
)
