//go:build portable || darwin

package sys

import (
	"bytes"
	"encoding/binary"
	"time"
)

// This file encodes and decodes the structs of Darwin's system calls. With the build tag
// "portable", it is also compiled on Linux, for its tests.

// bsdOmit and bsdNow are the values of Nsec that mean Unchanged and Now on Darwin. They cannot be
// real nanoseconds.
const (
	bsdOmit = 1<<30 - 2
	bsdNow  = 1<<30 - 1
)

// Constants of sys/attr.h.
const (
	attrModified = 0x400  // ATTR_CMN_MODTIME
	attrAccessed = 0x1000 // ATTR_CMN_ACCTIME
)

// bsdTimes returns the attribute bits to pass to setattrlist(2), and the values of the attributes:
// one timespec struct per bit, in the order of the bits.
func bsdTimes(accessed, modified Time, now time.Time) (attrs uint32, values []byte) {
	for _, a := range []struct {
		bit uint32
		t   Time
	}{{attrModified, modified}, {attrAccessed, accessed}} {
		switch a.t.Nsec {
		case bsdOmit:
			continue
		case bsdNow:
			a.t = Time{Sec: now.Unix(), Nsec: uint32(now.Nanosecond())}
		}
		attrs |= a.bit
		values = binary.NativeEndian.AppendUint64(values, uint64(a.t.Sec))
		values = binary.NativeEndian.AppendUint64(values, uint64(a.t.Nsec))
	}
	return attrs, values
}

// parseBSD decodes the first of several dirent structs with 64-bit inode numbers, and also returns
// that struct's size. The fields are inode number, cookie, length of the struct, length of the
// name, type, name.
func parseBSD(b []byte) (Dirent, int) {
	size := int(binary.NativeEndian.Uint16(b[16:]))
	name := b[21:size]
	if n := int(binary.NativeEndian.Uint16(b[18:])); n < len(name) {
		name = name[:n]
	}
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	return Dirent{
		Ino:  binary.NativeEndian.Uint64(b),
		Next: binary.NativeEndian.Uint64(b[8:]),
		Mode: uint32(b[20]) << 12,
		Name: string(name),
	}, size
}

// missingBytes returns the number of bytes that F_PREALLOCATE must add to a file so that n bytes at
// off are allocated. blocks is the file's present size on disk in blocks of 512 bytes.
func missingBytes(off, n int64, blocks uint64) int64 { return max(off+n-int64(blocks)*512, 0) }
