// Package fusefs is the overlay. It mounts a source directory through FUSE, passes every operation
// on to it, and reports each open, close, write, rename and delete to an Observer. It does not
// depend on the packages that store and search these reports.
//
// # How a request travels
//
// A device loop (loop.go) owns one operating system thread per pending request. It reads from
// /dev/fuse, and go-fuse's ProtocolServer decodes the request and calls the overlay, a
// fuse.RawFileSystem. There is one Go file for each family of operations. The overlay reaches files
// of the source by name, relative to a directory descriptor (resolve.go), never by an absolute
// path, because the mount usually covers the source. The system calls are in package sys.
//
// # Identity
//
// An inode is identified by device, inode number and birth time. Node ids, by which the kernel
// refers to inodes, are never reused. The inode of a file holds no descriptor, and only a limited
// number of directories hold one. A file that the kernel has only looked up has no inode; see
// table.go.
//
// # What counts as closed
//
// An inode is dirty after a write, a change of size, fallocate, copy_file_range or O_TRUNC. A dirty
// inode counts as closed at a FLUSH or RELEASE of any of its handles, at a truncate(2) without a
// handle, and before one of its names is added, removed or changed. It also counts as closed after
// two seconds without a write, but at most once every five seconds. A FLUSH of a clean inode is
// ignored, because the exit of a child that inherited the descriptor causes a FLUSH before the
// parent has written. A FLUSH is also ignored while a file has only been created or truncated,
// because a shell that redirects to the file causes one before its command writes.
//
// # Taking over
//
// With Options.Ledger, another server can take over the connection of a killed one without any
// program on the mount noticing; see takeover.go.
//
// # Why not passthrough
//
// With passthrough, the kernel reads and writes a descriptor of the source itself. That would save
// one copy at the first read of a large file. It would save nothing for small or cached files,
// where the OPEN is the main cost. It would also hide WRITE from us, so old content could not be
// saved before it is overwritten. The kernel also refuses passthrough and normal handles on one
// inode at once, so a file open for reading could not be opened for writing.
//
// # Locks, in the order in which they may be taken
//
//  1. inode.order allows only one operation at a time to change an inode's content or names, so
//     that operations are reported to the Observer in the order in which they took effect. It
//     is the only lock that is held during system calls and calls of the Observer. It is never
//     held while the kernel is notified, because dropping cached pages may need a WRITE of the
//     same inode. Two inodes (rename) are locked in the order of their ids.
//  2. overlay.tree guards the parents and names of all inodes.
//  3. Leaf locks, which are never nested: the shards of the inode table and of the handle table,
//     inode.mu (the list of handles and the last seen attributes), and the mutexes of the
//     directory descriptors, the directory streams, the dirty set, the notifier and the process
//     cache. Only the ledger's lock may be taken while one of them is held.
package fusefs
