//go:build linux && (amd64 || arm64)

package outside

import (
	"maps"
	"slices"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// unreported holds calls that change something but need no report. Setting times destroys nothing
// that the history holds. ftruncate(2) needs a descriptor that can write, and opening that
// descriptor was reported.
var unreported = map[uint32]bool{unix.SYS_UTIMENSAT: true, unix.SYS_FTRUNCATE: true}

// init adds the older system calls that set times.
func init() {
	for _, nr := range olderTimes {
		unreported[nr] = true
	}
}

// writeFlags are the flags of open(2) with which a call can change or make a file.
const writeFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC

// Filter returns the program that reports calls that can change or destroy something.
func Filter() []unix.SockFilter {
	p := []unix.SockFilter{notifier.Stmt(notifier.Load, notifier.OffArch), notifier.Jump(notifier.Equal, notifier.AuditArch, 1, 0), notifier.Allow, notifier.Stmt(notifier.Load, notifier.OffNR)}
	if notifier.ForeignFrom > 0 {
		p = append(p, notifier.Jump(notifier.Least, notifier.ForeignFrom, 0, 1), notifier.Allow)
	}
	calls := slices.Sorted(maps.Keys(notifier.Calls))
	for _, nr := range calls { // opens come first, because they are the most frequent, and most of them only read
		if c := notifier.Calls[nr]; c.Op == notifier.Open && c.Flags >= 0 {
			p = append(p, notifier.Jump(notifier.Equal, nr, 0, 4), notifier.Stmt(notifier.Load, notifier.OffArgs+8*uint32(c.Flags)),
				notifier.Jump(notifier.Any, writeFlags, 0, 1), notifier.Show, notifier.Allow)
		}
	}
	for _, nr := range calls {
		if alwaysReported(nr, notifier.Calls[nr]) {
			p = append(p, notifier.Jump(notifier.Equal, nr, 0, 1), notifier.Show)
		}
	}
	// Operations in an io_uring cannot be seen, so io_uring_setup fails. Programs work without it.
	p = append(p, notifier.Jump(notifier.Equal, unix.SYS_IO_URING_SETUP, 0, 1), notifier.Refuse(unix.ENOSYS))
	return append(p, notifier.Allow)
}

// alwaysReported reports whether a call is reported whatever its arguments are.
func alwaysReported(nr uint32, c notifier.Call) bool {
	switch c.Op {
	case notifier.Open:
		return c.Flags < 0 // creat
	case notifier.Open2, notifier.Change, notifier.Make, notifier.Remove, notifier.Move, notifier.Hard, notifier.Bind:
		return !unreported[nr]
	}
	return false
}
