// Package spool passes records from mountd, which sees every operation on the mount, to the store
// daemon, which stores the versions.
//
// A spool is a directory of append-only files, used with plain pwrite and pread. Written data is in
// the kernel's page cache, so it survives kill -9 of either process. A full disk cannot kill a
// process, because pwrite returns ENOSPC, while a write to a mapped page would cause a fatal
// signal.
//
//	log-%016d.seg      records; the number is the Seq of the first one
//	content-%08d.dat   bytes of file contents, referred to by KindContent
//	spare.seg          the next segment, its space already allocated
//	reserve            a Seq and a content number; these and all higher numbers were never used
//	writer.lock        flock held by the living Writer
//
// A record in a segment is u32 length, u32 CRC-32C (both little-endian), then length bytes: u64
// Seq, then tagged fields (see codec.go). Length 0xffffffff with the sum 0x5e61f17e ends a segment
// that has a successor. A Reader therefore needs only one fstat of the current segment to notice
// new records.
//
// A KindContent record is appended after its bytes were written to the content file. Each Writer
// begins a new segment when it opens the spool.
//
// Writer.mu guards the log, Writer.poolMu the idle content files, and Writer.syncMu the group
// commit. They are taken in the order syncMu, poolMu, mu. Only one goroutine may call a Reader's
// TryNext and Release.
package spool
