// Package spool is the hand-over from mountd, which sees every operation on the
// mount, to the store daemon, which keeps the versions: the first half of
// "version" in observe → version → index → serve.
//
// One directory, append-only files, plain pwrite and pread: nothing here can be
// killed by a full disk (ENOSPC is an errno, a fault in a mapped page is not),
// and what has been written survives kill -9 of either process because it lies
// in the kernel's page cache.
//
//	log-%016d.seg      records; the number is the Seq of the first one
//	content-%08d.dat   bytes of file contents, referred to by KindContent
//	spare.seg          the next segment, its space already allocated
//	reserve            Seq and content number that were never handed out before
//	writer.lock        flock held by the living Writer
//
// A record in a segment is u32 length, u32 CRC-32C (both little-endian), then
// length bytes: u64 Seq, then tagged fields (see codec.go). Length 0xffffffff
// with the sum 0x5e61f17e ends a segment that has a successor, so that one
// fstat of the segment being read tells a Reader whether there is anything new.
//
// A KindContent record is appended only after its bytes are in the content file.
// Each open of a Writer begins a new segment.
//
// Locks: Writer.mu (log), Writer.poolMu (idle content files), Writer.syncMu
// (group commit), taken in the order syncMu, poolMu, mu; a Reader belongs to one
// goroutine, but for Poke, CaughtUp and Content.
package spool
