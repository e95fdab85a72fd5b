// Package sourcewatch reports what other processes do in a directory tree, whatever path they use
// to reach it. mountd uses it to watch its source while other processes can change the source
// without going through the mount.
//
// It uses fanotify(7), which reports the process that made a change. For root, one fanotify mark
// covers the whole file system. For other users, each directory needs its own mark, and the kernel
// reports only whether the watcher itself made the change. Start fails on other systems, and on
// file systems without file handles.
package sourcewatch

import "errors"

// ErrUnsupported means that this system cannot watch a tree.
var ErrUnsupported = errors.New("directories cannot be watched here")

// Op is a set of bits that say what happened to a name.
type Op uint8

// The bits of an Op.
const (
	Opened     Op = 1 << iota // a file was opened; only reported for mounts passed to WatchMount
	Changed                   // the content is being modified
	Closed                    // a file that was open for writing was closed
	Came                      // the name was made, or, with Moved, moved into the tree
	Went                      // the name was removed, or, with Moved, moved out of the tree
	Moved                     // the name From was renamed to Path
	Attributes                // mode, owner, times, extended attributes or the number of names
)

// Event is something that another process did. The kernel may merge several events for one name. So
// an Event tells where something changed, but not what the present state is.
type Event struct {
	Op   Op
	PID  int    // 0 if the kernel does not report the process
	Path string // relative to the root; "" is the root itself
	From string // the old path, if Op is Moved
	Dir  bool
}
