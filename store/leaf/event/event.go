// Package event defines types that the overlay, the spool and the history share: operations on a
// path, classes of paths, and the identity of a file.
package event

import (
	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sys/unix"
)

// Settled is an extended attribute that no file has. A request for it on a mount's root is answered
// only after all files that were closed before the request have been recorded. A file that was only
// created or emptied is recorded when its handle is released, which may happen after close(2)
// returns.
const Settled = "user.cachebro.settled"

// Op is an operation on a path. The values are stored in the spool and in the log.
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
	OpBaseline // state found by a scan, or saved before the first destructive operation
	OpOutside  // changed without going through the mount
	OpMoved    // in the log only: the path was renamed away
	OpSeen     // in the log only: the file was found changed while nothing was mounted
)

// Class is the class of a path. It decides what is captured and indexed. The values are stored.
type Class uint8

const (
	// Tracked paths are in git's index, or no rule matches them. Every version is stored.
	Tracked Class = iota
	// Ignored paths match a gitignore rule. Their content is saved only before it is destroyed.
	Ignored
	// Excluded paths are .git and those that .cachebroignore or the built-in list excludes. Their
	// content is never saved.
	Excluded
)

// String returns the class's name. An unknown value counts as tracked.
func (c Class) String() string {
	switch c {
	case Ignored:
		return "ignored"
	case Excluded:
		return "excluded"
	}
	return "tracked"
}

// Stat is what statx reports about an inode. If a file's Stat is unchanged, its content is
// unchanged, because a change of the content alters Ctime, Size, Ino or Birth. Only a second change
// within one clock tick may alter none of them.
type Stat struct {
	Dev   uint64 `cbor:"1,keyasint,omitempty"`
	Ino   uint64 `cbor:"2,keyasint,omitempty"`
	Birth int64  `cbor:"3,keyasint,omitempty"` // ns since the epoch; 0: the file system does not record it
	Mode  uint32 `cbor:"4,keyasint,omitempty"` // st_mode, type bits included
	Nlink uint32 `cbor:"5,keyasint,omitempty"`
	UID   uint32 `cbor:"6,keyasint,omitempty"`
	GID   uint32 `cbor:"7,keyasint,omitempty"`
	Size  int64  `cbor:"8,keyasint,omitempty"`
	Mtime int64  `cbor:"9,keyasint,omitempty"`  // ns since the epoch
	Ctime int64  `cbor:"10,keyasint,omitempty"` // ns since the epoch
	// Attrs holds the extended attributes as an attrs.Set. The overlay does not set it.
	Attrs string `cbor:"11,keyasint,omitempty"`
}

// IsDir, IsRegular and IsLink report the kind of the file. A Stat without a mode is of no kind.
func (st Stat) IsDir() bool     { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
func (st Stat) IsRegular() bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }
func (st Stat) IsLink() bool    { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

// Inode identifies a file across mounts. The zero Inode is unknown.
type Inode struct {
	Dev   uint64
	Ino   uint64
	Birth int64
}

// InodeOf returns the identity of the file that a Stat describes.
func InodeOf(st Stat) Inode { return Inode{st.Dev, st.Ino, st.Birth} }

// Prepared is an extended attribute of directories in a mount. A thread sets it to announce files
// that it will create in the directory by mknod(2). Each file then appears with its content, mode
// and time in one step. The attribute is never stored. A mount that supports it has it on the root,
// with an empty value.
const Prepared = "user.cachebro.prepared"

// MaxPrepared is the longest value of an attribute that Linux allows.
const MaxPrepared = 64 << 10

// PreparedFile is one of the files that Prepared announces.
type PreparedFile struct {
	_       struct{} `cbor:",toarray"`
	Name    []byte   // name within the directory
	Mode    uint32   // permission bits
	Mtime   int64    // in nanoseconds
	Content []byte
}

// EncodePrepared returns the attribute's value.
func EncodePrepared(files []PreparedFile) ([]byte, error) { return cbor.Marshal(files) }

// DecodePrepared decodes the attribute's value. The contents are copies.
func DecodePrepared(b []byte) (files []PreparedFile, err error) {
	return files, cbor.Unmarshal(b, &files)
}

// RunSession is the environment variable in which cachebro run passes its session's name to the
// processes that it starts.
const RunSession = "CACHEBRO_SESSION"

// ClientSessions are the environment variables in which agents pass their session's name to the
// processes that they start.
var ClientSessions = []string{"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"}

// SessionVariables lists all of these variables. The first one that is set counts.
var SessionVariables = append([]string{RunSession}, ClientSessions...)
