// Package sourcewatch tells what other processes do in a directory tree, wherever they
// come from. It stands at the observe end of observe → version → index → serve: mountd
// watches its source while somebody can change it without going through the mount.
//
// It uses fanotify(7), which names the process. As root one mark covers the whole file
// system. Without that right each directory has a mark of its own, and the kernel names
// no process but tells apart what the watcher did itself. Where neither is possible
// (other systems, file systems without file handles), Start fails.
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
	Came                      // the name was made, or with Moved came from outside the tree
	Went                      // the name was removed, or with Moved went out of the tree
	Moved                     // the name From became Path
	Attributes                // mode, owner, times, extended attributes or the number of names
)

// Event is something that another process did. Events of one name can be merged, so an
// Event says what to look at rather than how things are.
type Event struct {
	Op   Op
	PID  int    // 0: the kernel does not say
	Path string // relative to the root; "" is the root itself
	From string
	Dir  bool
}
