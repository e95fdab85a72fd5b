//go:build portable || darwin

package sys

import (
	"bytes"
	"encoding/binary"
)

const (
	attrName  = 0x1               // ATTR_CMN_NAME of sys/attr.h
	nameReply = 4 + 8 + 3*255 + 4 // a name has at most 255 UTF-16 units
)

// parseName decodes the reply of getattrlist(2) to a request for ATTR_CMN_NAME alone. The reply
// consists of the total length and an attrreference. The attrreference holds the offset of the
// name, counted from the attrreference itself, and the name's length including the NUL.
func parseName(b []byte) (string, bool) {
	if len(b) < 12 {
		return "", false
	}
	size := int(binary.NativeEndian.Uint32(b))
	at := 4 + int(int32(binary.NativeEndian.Uint32(b[4:])))
	end := at + int(binary.NativeEndian.Uint32(b[8:]))
	if at < 12 || end < at || end > size || size > len(b) {
		return "", false
	}
	name, _, _ := bytes.Cut(b[at:end], []byte{0})
	return string(name), len(name) > 0
}
