// Package event names what the overlay, the spool and the history all speak of: what
// happened to a path, whether its contents are kept, and how to recognise a file.
package event

// Settled is the extended attribute that nothing has. Who asks a mount's root for it gets
// the answer when what was closed before it is told of: of a file that was only made or
// emptied, nothing is before its handle's end, which may come after close(2) returned.
const Settled = "user.cachebro.settled"

// Op is what happened. The values are on disk, in the spool and in the log.
type Op uint8

// The operations.
const (
	OpOpen     Op = iota + 1 // opened for reading; never a version
	OpCreate                 // by open(2), mknod(2) or O_TMPFILE+link
	OpWrite                  // content was closed after a modification
	OpTruncate               // by truncate(2)
	OpRename
	OpExchange // two paths changed places (RENAME_EXCHANGE)
	OpLink     // a path became another name of the same inode
	OpUnlink
	OpSymlink
	OpMkdir
	OpRmdir
	OpChmod    // mode, owner or extended attributes changed
	OpMknod    // FIFO, socket or device
	OpBaseline // found there: by a scan, or before the first destructive operation
	OpOutside  // changed by somebody who does not go through the mount
	OpMoved    // in the log only: the path went away by a rename
	OpSeen     // in the log only: not mounted, found changed when somebody asked
)

// Class of a path; it decides what is captured and indexed. The values are on disk.
type Class uint8

const (
	// Tracked: in git's index, or matched by no rule. Every version is kept.
	Tracked Class = iota
	// Ignored: matched by a gitignore rule. Only content about to be destroyed is kept.
	Ignored
	// Excluded: .git, .cachebroignore, the built-in list. Nothing is kept.
	Excluded
)

// String is the class's name; of a value that is not known, the first.
func (c Class) String() string {
	switch c {
	case Ignored:
		return "ignored"
	case Excluded:
		return "excluded"
	}
	return "tracked"
}

// Stat is what statx says of an inode, enough to recognise unchanged content: no
// content change leaves Ctime, Size, Ino and Birth all as they were, but for changes
// within one clock tick.
type Stat struct {
	Dev   uint64 `cbor:"1,keyasint,omitempty"`
	Ino   uint64 `cbor:"2,keyasint,omitempty"`
	Birth int64  `cbor:"3,keyasint,omitempty"` // ns since the epoch, 0 where the source has none
	Mode  uint32 `cbor:"4,keyasint,omitempty"` // st_mode, type bits included
	Nlink uint32 `cbor:"5,keyasint,omitempty"`
	UID   uint32 `cbor:"6,keyasint,omitempty"`
	GID   uint32 `cbor:"7,keyasint,omitempty"`
	Size  int64  `cbor:"8,keyasint,omitempty"`
	Mtime int64  `cbor:"9,keyasint,omitempty"`  // ns since the epoch
	Ctime int64  `cbor:"10,keyasint,omitempty"` // ns since the epoch
	// Attrs are its extended attributes, an attrs.Set; the overlay leaves them out.
	Attrs string `cbor:"11,keyasint,omitempty"`
}

// Inode tells one file from another across mounts. The zero Inode is unknown.
type Inode struct {
	Dev   uint64
	Ino   uint64
	Birth int64
}

// InodeOf is the file that a Stat describes.
func InodeOf(st Stat) Inode { return Inode{st.Dev, st.Ino, st.Birth} }
