package fusefs

import (
	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// This file holds the differences between the protocols of Linux and Darwin. doc/macos.md names the
// sources.

// capabilities are requested besides those of go-fuse.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_NO_OPENDIR_SUPPORT |
	fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ASYNC_DIO | fuse.CAP_HAS_RESEND

// capabilitiesOf returns 0: no capability depends on the source.
func capabilitiesOf(int) uint64 { return 0 }

// resending are the bits of INIT of a kernel that can resend unanswered requests.
const resending = fuse.CAP_INIT_EXT | fuse.CAP_HAS_RESEND

// readersInTurn reports whether only one thread at a time may wait for a request.
const readersInTurn = false

// fillMore fills in the attributes that only this kernel has.
func fillMore(*sys.Stat, *fuse.Attr) {}

func fillStatfs(s *unix.Statfs_t, out *fuse.StatfsOut) {
	*out = fuse.StatfsOut{
		Blocks: s.Blocks, Bfree: s.Bfree, Bavail: s.Bavail, Files: s.Files, Ffree: s.Ffree,
		Bsize: uint32(s.Bsize), NameLen: uint32(s.Namelen), Frsize: uint32(s.Frsize),
	}
}

// emptyChowns reports whether a chown(2) that changes no owner arrives as an empty SETATTR.
const emptyChowns = true

// setMoreOf are the bits of SETATTR that only this kernel has; setMore applies them.
const setMoreOf = 0

func setMore(sys.Ref, *fuse.SetAttrIn) error { return nil }

// atPosition reads an extended attribute from the position that the request names.
func atPosition(_ *fuse.InHeader, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	return get(dest)
}

func setXattr(in *fuse.SetXAttrIn, at sys.Ref, attr string, data []byte) error {
	return sys.SetXattr(at, attr, data, int(in.Flags))
}
