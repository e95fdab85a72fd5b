// Package fusefs is the overlay: it mounts a source directory through FUSE,
// passes every operation on to it, and tells an Observer of each open, close,
// write, rename and delete. In the chain observe → version → index → serve it
// is the first station, and it knows none of the others.
//
// # How a request travels
//
// A device loop (loop.go) owns one operating system thread per pending request, reads from
// /dev/fuse and lets go-fuse's ProtocolServer decode the request and call the overlay, a
// fuse.RawFileSystem. The operations lie in one file per family. Files of the source are reached
// by name relative to the descriptor of a directory (resolve.go), never by an absolute path,
// because in the usual case the mountpoint covers the source. The system calls for that are in
// package sys.
//
// # Identity
//
// An inode is known by device, inode number and birth time. Node ids, the kernel's names for
// inodes, count upwards and are never used twice. No inode holds a descriptor; a bounded set of
// directories does. A file that the kernel only looked up has no inode yet; see resting.go.
//
// # What counts as closed
//
// An inode is dirty after a write, a change of size, fallocate, copy_file_range or O_TRUNC. A
// dirty inode counts as closed at a FLUSH or RELEASE of any of its handles, at a truncate(2)
// without a handle, before a name of it is added, removed or changed, and after two seconds
// without a write (at most once every five). A FLUSH of a clean inode means nothing: a child
// that inherited a descriptor sends one before its parent writes. A FLUSH also means nothing
// while a file has only been created or truncated: a shell sends one before its command writes.
//
// # Taking over
//
// With Options.Ledger a killed server can be replaced on the same connection, and
// no program on the mount notices; see takeover.go.
//
// # Why not passthrough
//
// A descriptor handed to the kernel would save one copy when a large file is read
// for the first time. It would save nothing for small or cached files, whose cost
// is the OPEN. But it hides WRITE from us, so old content could not be saved before
// it is overwritten. The kernel also refuses to mix both ways on one inode: a file
// that is open for reading could not be opened for writing.
//
// # Locks, in the order in which they may be taken
//
//  1. inode.order: one operation that changes an inode's content or names at a
//     time, so that the Observer hears of them in the order in which they took
//     effect. It is the only lock held over system calls and over calls of the
//     Observer, and never while the kernel is notified: dropping cached pages
//     may need a WRITE of the same inode. Two inodes (rename) are locked in
//     the order of their ids.
//  2. overlay.tree: who is whose parent under which name. Memory only.
//  3. The shards of the inode table and of the handle table, inode.mu (the
//     list of handles and the last seen attributes), the mutexes of the
//     directory descriptors, the directory streams, the dirty set, the notifier
//     and the process cache: leaves, memory only, never nested. Only the ledger's
//     own lock is below them.
package fusefs
