//go:build linux && (amd64 || arm64)

package notifier

import (
	"maps"

	"golang.org/x/sys/unix"
)

// Op is what a system call does with the path in its arguments.
type Op uint8

const (
	Stat     Op = iota + 1 // asks for attributes, following a final symlink
	Lstat                  // asks for attributes without following a final symlink
	Exist                  // asks whether the path exists and may be used
	Open                   // opens for reading or writing, depending on the flags
	Open2                  // like Open, with the flags in a struct
	Exec                   // reads the file and its interpreter
	List                   // lists an open directory
	Readlink               // reads the target of a symlink
	Change                 // changes content, attributes or times, following symlinks
	Make                   // creates a name
	Remove                 // removes a name
	Move                   // removes the first name and creates the second
	Hard                   // creates the second name for the first one's file
	Connect                // connects to a socket
	Bind                   // gives a socket a name, see Notice.SocketPath
	Strange                // changes the meaning of paths (mount, chroot, namespaces)
)

// Call gives the positions of a system call's arguments. -1 means that the argument is missing. A
// missing directory means the working directory.
type Call struct {
	Op          Op
	Dir, Path   int8
	Flags       int8
	Dir2, Path2 int8
	WithoutPath bool // a NULL path means the descriptor Dir itself
}

func at(o Op, flags int8) Call {
	return Call{Op: o, Dir: 0, Path: 1, Flags: flags, Dir2: -1, Path2: -1}
}
func plain(o Op) Call { return Call{Op: o, Dir: -1, Path: 0, Flags: -1, Dir2: -1, Path2: -1} }

// Calls describes the watched system calls, by number.
var Calls = map[uint32]Call{
	unix.SYS_OPENAT:            at(Open, 2),
	unix.SYS_OPENAT2:           at(Open2, 2),
	unix.SYS_STATX:             at(Stat, 2),
	unix.SYS_FACCESSAT:         at(Exist, -1),
	unix.SYS_FACCESSAT2:        at(Exist, 3),
	unix.SYS_READLINKAT:        at(Readlink, -1),
	unix.SYS_GETDENTS64:        {Op: List, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_EXECVE:            plain(Exec),
	unix.SYS_EXECVEAT:          at(Exec, -1),
	unix.SYS_CHDIR:             plain(Exist),
	unix.SYS_GETXATTR:          plain(Stat),
	unix.SYS_LGETXATTR:         plain(Lstat),
	unix.SYS_LISTXATTR:         plain(Stat),
	unix.SYS_LLISTXATTR:        plain(Lstat),
	unix.SYS_NAME_TO_HANDLE_AT: at(Stat, -1),
	unix.SYS_INOTIFY_ADD_WATCH: at(Exist, -1),

	unix.SYS_MKDIRAT:      at(Make, -1),
	unix.SYS_MKNODAT:      at(Make, -1),
	unix.SYS_SYMLINKAT:    {Op: Make, Dir: 1, Path: 2, Flags: -1, Dir2: -1, Path2: -1},
	unix.SYS_UNLINKAT:     at(Remove, -1),
	unix.SYS_RENAMEAT2:    {Op: Move, Dir: 0, Path: 1, Flags: -1, Dir2: 2, Path2: 3},
	unix.SYS_LINKAT:       {Op: Hard, Dir: 0, Path: 1, Flags: -1, Dir2: 2, Path2: 3},
	unix.SYS_TRUNCATE:     plain(Change),
	unix.SYS_FCHMODAT:     at(Change, -1),
	unix.SYS_FCHMODAT2:    at(Change, 3),
	unix.SYS_FCHOWNAT:     at(Change, 4),
	unix.SYS_UTIMENSAT:    {Op: Change, Dir: 0, Path: 1, Flags: 3, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_SETXATTR:     plain(Change),
	unix.SYS_LSETXATTR:    plain(Change),
	unix.SYS_REMOVEXATTR:  plain(Change),
	unix.SYS_LREMOVEXATTR: plain(Change),
	unix.SYS_FCHMOD:       {Op: Change, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_FCHOWN:       {Op: Change, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_FSETXATTR:    {Op: Change, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_FREMOVEXATTR: {Op: Change, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},
	unix.SYS_FTRUNCATE:    {Op: Change, Dir: 0, Path: -1, Flags: -1, Dir2: -1, Path2: -1, WithoutPath: true},

	unix.SYS_SETXATTRAT:    at(Change, 2),
	unix.SYS_REMOVEXATTRAT: at(Change, 2),

	unix.SYS_CONNECT: {Op: Connect},
	unix.SYS_BIND:    {Op: Bind},

	unix.SYS_CHROOT:            plain(Strange),
	unix.SYS_PIVOT_ROOT:        plain(Strange),
	unix.SYS_MOUNT:             plain(Strange),
	unix.SYS_UMOUNT2:           plain(Strange),
	unix.SYS_MOVE_MOUNT:        plain(Strange),
	unix.SYS_SETNS:             plain(Strange),
	unix.SYS_OPEN_BY_HANDLE_AT: plain(Strange),
}

func init() {
	fstatat := at(Stat, 3)
	Calls[SysFstatat] = fstatat
	maps.Copy(Calls, olderCalls)
}
