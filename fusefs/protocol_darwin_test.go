package fusefs

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The following are the sizes and offsets of the structures that the kernel sends and reads. They
// are taken from osxfuse's fuse_kernel.h (osxfuse/kext, 534773bd) and from macFUSE's
// (macfuse/library, include/fuse_kernel.h), which adds the flags of a rename. If go-fuse's
// structures differ, this file does not compile for darwin. CI compiles it on Linux.
const header = unsafe.Sizeof(fuse.InHeader{})

var (
	attr    fuse.Attr
	entry   fuse.EntryOut
	attrOut fuse.AttrOut
	setAttr fuse.SetAttrIn
	set     fuse.SetXAttrIn
	get     fuse.GetXAttrIn
	moved   fuse.RenameIn
	statfs  fuse.StatfsOut
)

// An array of length 1 allows only the constant index 0, so a wrong size or offset does not
// compile.
var (
	_ = [1]struct{}{}[header-40]
	_ = [1]struct{}{}[unsafe.Sizeof(attr)-104]
	_ = [1]struct{}{}[unsafe.Offsetof(attr.Crtime_)-48]
	_ = [1]struct{}{}[unsafe.Offsetof(attr.Crtimensec_)-68]
	_ = [1]struct{}{}[unsafe.Offsetof(attr.Mode)-72]
	_ = [1]struct{}{}[unsafe.Offsetof(attr.Flags_)-92]
	_ = [1]struct{}{}[unsafe.Sizeof(entry)-144]
	_ = [1]struct{}{}[unsafe.Offsetof(entry.Attr)-40]
	_ = [1]struct{}{}[unsafe.Sizeof(attrOut)-120]
	_ = [1]struct{}{}[unsafe.Offsetof(attrOut.Attr)-16]
	_ = [1]struct{}{}[unsafe.Sizeof(setAttr)-header-128]
	_ = [1]struct{}{}[unsafe.Offsetof(setAttr.Bkuptime_)-header-88]
	_ = [1]struct{}{}[unsafe.Offsetof(setAttr.Crtime)-header-104]
	_ = [1]struct{}{}[unsafe.Offsetof(setAttr.Flags_)-header-124]
	_ = [1]struct{}{}[unsafe.Sizeof(set)-header-16]
	_ = [1]struct{}{}[unsafe.Offsetof(set.Position)-header-8]
	_ = [1]struct{}{}[unsafe.Sizeof(get)-header-16]
	_ = [1]struct{}{}[unsafe.Offsetof(get.Position)-header-8]
	_ = [1]struct{}{}[unsafe.Sizeof(moved)-header-16]
	_ = [1]struct{}{}[unsafe.Offsetof(moved.Flags)-header-8]
	_ = [1]struct{}{}[unsafe.Sizeof(statfs)-80]
)
