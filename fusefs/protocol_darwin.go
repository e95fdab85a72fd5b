package fusefs

import (
	"unsafe"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// This file holds the differences between the protocols of Linux and Darwin. doc/macos.md names the
// sources.

// capabilities are requested besides those of go-fuse: an OPEN that truncates, a rename that
// replaces nothing, and FALLOCATE.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_RENAME_EXCL | fuse.CAP_ALLOCATE

// pcCaseSensitive is _PC_CASE_SENSITIVE of <sys/unistd.h>. fpathconf(2) returns 0 for it if a
// volume ignores case.
const pcCaseSensitive = 11

// capabilitiesOf returns the capabilities that depend on the source. If the kernel knows that the
// volume ignores case, it forwards a rename that changes only case.
func capabilitiesOf(source int) uint64 {
	if v, err := unix.Fpathconf(source, pcCaseSensitive); err == nil && v == 0 {
		return fuse.CAP_CASE_INSENSITIVE
	}
	return 0
}

// resending is 0 because this kernel cannot send requests again.
const resending = 0

// readersInTurn lets only one thread at a time wait for a request. If several wait, some miss the
// unmount. go-fuse does the same (fuse/fusefd_other.go).
const readersInTurn = true

// fillMore fills in the attributes that only this kernel has.
func fillMore(sx *sys.Stat, a *fuse.Attr) {
	a.Crtime_, a.Crtimensec_ = uint64(sx.Born.Sec), sx.Born.Nsec
	a.Flags_ = uint32(sx.Flags)
}

// fillStatfs fills in the reply. Blocks are counted in units of Frsize. Bsize is the transfer size.
func fillStatfs(s *unix.Statfs_t, out *fuse.StatfsOut) {
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Iosize), NameLen: 255, Frsize: s.Bsize,
	}
}

// emptyChowns reports whether a chown(2) that changes no owner arrives as an empty SETATTR.
const emptyChowns = false

// setMoreOf are the bits of SETATTR that only this kernel has; setMore applies them. The kernel
// sends times of creation, backup and change only after CAP_XTIMES was requested.
const setMoreOf = fuse.FATTR_FLAGS

func setMore(f sys.Ref, in *fuse.SetAttrIn) error {
	if in.Valid&fuse.FATTR_FLAGS == 0 {
		return nil
	}
	return sys.SetFlags(f, in.Flags_)
}

// atPosition reads an extended attribute from the position in the request, because a resource fork
// is read in pieces. go-fuse passes only the header; the rest of the request follows it in memory.
func atPosition(in *fuse.InHeader, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	position := (*fuse.GetXAttrIn)(unsafe.Pointer(in)).Position
	if position == 0 {
		return get(dest)
	}
	return piece(position, dest, get)
}

func setXattr(in *fuse.SetXAttrIn, at sys.Ref, attr string, data []byte) error {
	if in.Position > 0 {
		var err error
		data, err = patched(in.Position, data, func(dest []byte) (int, error) { return sys.GetXattr(at, attr, dest) })
		if err != nil {
			return err
		}
	}
	return sys.SetXattr(at, attr, data, int(in.Flags))
}
