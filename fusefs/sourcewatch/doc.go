// Package sourcewatch reports what other processes do in a directory tree, on whatever
// way they reach it. It stands at the observe end of observe → version → index → serve:
// mountd watches its source while somebody can change it without going through the mount.
//
// It uses fanotify(7), which names the process. As root, one mark covers the whole file
// system. Without that right each directory has its own mark, and the kernel does not
// name the process, but still tells which changes the watcher made itself. Where neither
// is possible (other systems, file systems without file handles), Start fails.
package sourcewatch

import "errors"

// ErrUnsupported: this system cannot watch a tree.
var ErrUnsupported = errors.New("directories cannot be watched here")

// Op says what happened to a name. One Event can have several.
type Op uint8

// What happened.
const (
	Opened     Op = 1 << iota // only through a mount that was given to WatchMount
	Changed                   // the content is being modified
	Closed                    // a file that was open for writing was closed
	Came                      // the name was made, or with Moved: it came from outside the tree
	Went                      // the name was removed, or with Moved: it left the tree
	Moved                     // the name From was renamed to Path
	Attributes                // mode, owner, times, extended attributes or the number of names
)

// Event is something that another process did. The kernel may merge events of one name,
// so an Event says where to look rather than what the state is.
type Event struct {
	Op   Op
	PID  int    // 0: the kernel does not say
	Path string // relative to the root; "" is the root itself
	From string
	Dir  bool
}
