// Package spool passes records from mountd, which sees every operation on the mount, to the
// store daemon, which stores the versions. It is the first half of the "version" stage in
// observe → version → index → serve.
//
// It is a directory of append-only files, used with plain pwrite and pread. Therefore a full
// disk cannot kill a process (ENOSPC is an errno, a fault in a mapped page is a signal), and
// written data survives kill -9 of either process, because it is in the kernel's page cache.
//
//	log-%016d.seg      records; the number is the Seq of the first one
//	content-%08d.dat   bytes of file contents, referred to by KindContent
//	spare.seg          the next segment, its space already allocated
//	reserve            Seq and content number that were never used before
//	writer.lock        flock held by the living Writer
//
// A record in a segment is u32 length, u32 CRC-32C (both little-endian), then length bytes:
// u64 Seq, then tagged fields (see codec.go). Length 0xffffffff with the sum 0x5e61f17e ends
// a segment that has a successor, so that a Reader needs only one fstat of the present
// segment to find out whether anything is new.
//
// A KindContent record is appended only after its bytes are in the content file. Each time a
// Writer opens the spool, a new segment begins.
//
// Locks: Writer.mu (log), Writer.poolMu (idle content files), Writer.syncMu (group commit),
// taken in the order syncMu, poolMu, mu. Only one goroutine may call a Reader's TryNext and
// Release.
package spool
