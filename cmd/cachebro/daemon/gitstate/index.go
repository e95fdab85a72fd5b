package gitstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// staged returns a digest of what git's index says of names, modes, stages and objects
// (gitformat-index(5), versions 2 to 4), without the times and inode numbers that git caches
// there. A split index has no digest.
func staged(raw []byte) (sum [32]byte, ok bool) {
	if len(raw) < 12 || !bytes.HasPrefix(raw, []byte("DIRC")) {
		return sum, false
	}
	for _, hash := range []int{20, 32} {
		sum, ok = stagedAs(raw, hash)
		if ok {
			return sum, true
		}
	}
	return sum, false
}

func stagedAs(raw []byte, hash int) (sum [32]byte, ok bool) {
	version, count := binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	if version < 2 || version > 4 || int64(count) > int64(len(raw)/(42+hash)) {
		return sum, false
	}
	all := sha256.New()
	at, name := 12, []byte{}
	for range count {
		fixed := at + 40 + hash + 2
		if fixed+2 > len(raw) {
			return sum, false
		}
		flags := binary.BigEndian.Uint16(raw[fixed-2:])
		all.Write(raw[at+24 : at+28]) // mode
		all.Write(raw[at+40 : at+40+hash])
		more := []byte{byte(flags >> 12), 0, 0}
		if flags&0x4000 != 0 {
			copy(more[1:], raw[fixed:fixed+2])
			fixed += 2
		}
		all.Write(more)
		if version == 4 {
			strip, n := varint(raw[fixed:])
			end := bytes.IndexByte(raw[min(fixed+n, len(raw)):], 0)
			if n == 0 || strip > len(name) || end < 0 {
				return sum, false
			}
			name = append(name[:len(name)-strip], raw[fixed+n:fixed+n+end]...)
			at = fixed + n + end + 1
		} else {
			end := bytes.IndexByte(raw[fixed:], 0)
			if end < 0 || int(flags&0xfff) != min(end, 0xfff) {
				return sum, false
			}
			name = raw[fixed : fixed+end]
			at += (fixed + end - at + 8) &^ 7
		}
		all.Write(name)
		all.Write([]byte{0})
		if at > len(raw) {
			return sum, false
		}
	}
	if bytes.Contains(raw[at:min(len(raw), at+4)], []byte("link")) {
		return sum, false
	}
	all.Sum(sum[:0])
	return sum, true
}

// varint decodes git's "offset encoding"; n is 0 if it does not end.
func varint(raw []byte) (v, n int) {
	for n < len(raw) && n < 5 {
		c := raw[n]
		n++
		v |= int(c & 0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v = (v + 1) << 7
	}
	return 0, 0
}
