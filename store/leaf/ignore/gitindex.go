package ignore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// tracked holds the paths in git's index as one string of names, sorted by bytes as git does.
// A map of 200,000 names would take 40 MB.
type tracked struct {
	names  string
	begins []uint32 // offset of each name
	dirs   bool     // some names are directories (a sparse index); these end in a slash
}

func (t *tracked) name(i int) string {
	if i+1 < len(t.begins) {
		return t.names[t.begins[i]:t.begins[i+1]]
	}
	return t.names[t.begins[i]:]
}

func (t *tracked) has(path string) bool {
	if t == nil {
		return false
	}
	if t.find(path) { // the index lists a submodule as a file
		return true
	}
	if t.dirs {
		for i := range len(path) {
			if path[i] == '/' && t.find(path[:i+1]) {
				return true
			}
		}
	}
	return false
}

func (t *tracked) find(path string) bool {
	i := sort.Search(len(t.begins), func(i int) bool { return t.name(i) >= path })
	return i < len(t.begins) && t.name(i) == path
}

var errIndex = errors.New("not an index of git, version 2 to 4")

// readIndex decodes the names in git's index (gitformat-index(5), versions 2, 3 and 4, SHA-1
// or SHA-256).
func readIndex(raw []byte) (*tracked, error) {
	if len(raw) < 12 || !bytes.HasPrefix(raw, []byte("DIRC")) {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", errIndex, version)
	}
	for _, hash := range []int{20, 32} {
		if t, err := readEntries(raw, version, count, hash); err == nil {
			return t, nil
		}
	}
	return nil, errIndex
}

func readEntries(raw []byte, version, count uint32, hash int) (*tracked, error) {
	if int64(count) > int64(len(raw)/(42+hash)) {
		return nil, errIndex
	}
	t := &tracked{begins: make([]uint32, 0, count)}
	all := make([]byte, 0, len(raw)/2)
	at := 12
	name := ""
	for range count {
		fixed := at + 40 + hash + 2
		if fixed > len(raw) {
			return nil, errIndex
		}
		flags := binary.BigEndian.Uint16(raw[fixed-2:])
		if flags&0x4000 != 0 {
			if version < 3 {
				return nil, errIndex
			}
			fixed += 2
		}
		if version == 4 {
			strip, n := offsetVarint(raw[min(fixed, len(raw)):])
			end := bytes.IndexByte(raw[min(fixed+n, len(raw)):], 0)
			if n == 0 || strip > len(name) || end < 0 {
				return nil, errIndex
			}
			name = name[:len(name)-strip] + string(raw[fixed+n:fixed+n+end])
			at = fixed + n + end + 1
		} else {
			end := bytes.IndexByte(raw[min(fixed, len(raw)):], 0)
			if end < 0 || int(flags&0xfff) != min(end, 0xfff) {
				return nil, errIndex
			}
			name = string(raw[fixed : fixed+end])
			at += (fixed + end - at + 8) &^ 7
		}
		if n := len(t.begins); n > 0 && string(all[t.begins[n-1]:]) >= name {
			if string(all[t.begins[n-1]:]) == name {
				continue // further stages of a conflict
			}
			return nil, errIndex
		}
		t.dirs = t.dirs || strings.HasSuffix(name, "/")
		t.begins = append(t.begins, uint32(len(all)))
		all = append(all, name...)
	}
	t.names = string(all)
	return t, nil
}

// offsetVarint decodes git's "offset encoding". n is 0 if the number does not end.
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
