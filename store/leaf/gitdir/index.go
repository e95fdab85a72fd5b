package gitdir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// IndexEntry is an entry of git's index without the cached stat data. Its slices are valid until
// the next entry is read.
type IndexEntry struct {
	Mode, Object []byte
	Flags        uint16 // only the upper four bits: the stage and two flags
	More         []byte // the extended flags of version 3 and later; nil: none
	Name         []byte
}

// ErrIndex means that the data is not a readable git index.
var ErrIndex = errors.New("not an index of git, version 2 to 4")

// indexHashes lists the lengths of SHA-1 and SHA-256 object names in bytes. An index does not
// record which of the two it uses.
var indexHashes = []int{20, 32}

// ReadIndex reads a git index (gitformat-index(5), versions 2 to 4). begin returns the function to
// call with each entry. ReadIndex calls begin before the first entry, and again if it has to start
// over with the other kind of hash. rest is the data after the entries.
func ReadIndex(raw []byte, begin func() func(IndexEntry) error) (rest []byte, err error) {
	if len(raw) < 12 || !bytes.HasPrefix(raw, []byte("DIRC")) {
		return nil, ErrIndex
	}
	if version := binary.BigEndian.Uint32(raw[4:]); version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", ErrIndex, version)
	}
	for _, hash := range indexHashes {
		rest, err = readEntries(raw, hash, begin())
		if err == nil {
			return rest, nil
		}
	}
	return nil, ErrIndex
}

func readEntries(raw []byte, hash int, fn func(IndexEntry) error) (rest []byte, err error) {
	version, count := binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	if int64(count) > int64(len(raw)/(42+hash)) {
		return nil, ErrIndex
	}
	at := 12
	var name []byte
	for range count {
		fixed := at + 40 + hash + 2
		if fixed+2 > len(raw) {
			return nil, ErrIndex
		}
		flags := binary.BigEndian.Uint16(raw[fixed-2:])
		e := IndexEntry{Mode: raw[at+24 : at+28], Object: raw[at+40 : at+40+hash], Flags: flags &^ 0xfff}
		if flags&0x4000 != 0 {
			if version < 3 {
				return nil, ErrIndex
			}
			e.More = raw[fixed : fixed+2]
			fixed += 2
		}
		if version == 4 {
			strip, n := offsetVarint(raw[fixed:])
			end := bytes.IndexByte(raw[min(fixed+n, len(raw)):], 0)
			if n == 0 || strip > len(name) || end < 0 {
				return nil, ErrIndex
			}
			name = append(name[:len(name)-strip], raw[fixed+n:fixed+n+end]...)
			at = fixed + n + end + 1
		} else {
			end := bytes.IndexByte(raw[fixed:], 0)
			if end < 0 || int(flags&0xfff) != min(end, 0xfff) {
				return nil, ErrIndex
			}
			name = raw[fixed : fixed+end]
			at += (fixed + end - at + 8) &^ 7
		}
		if at > len(raw) {
			return nil, ErrIndex
		}
		e.Name = name
		if err := fn(e); err != nil {
			return nil, err
		}
	}
	return raw[at:], nil
}

// offsetVarint decodes a number in git's "offset encoding" and returns its length n. n is 0 if the
// number is incomplete.
func offsetVarint(raw []byte) (v, n int) {
	for n < len(raw) && n < 8 {
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
