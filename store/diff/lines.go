package diff

import (
	"bytes"
	"unsafe"
)

// Lines splits b after each '\n'. The lines alias b, and joined they equal b. Only the last line
// may lack its newline. An empty b has no lines.
func Lines(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	out := make([][]byte, 0, bytes.Count(b, newline)+1)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return append(out, b)
		}
		out = append(out, b[:i+1:i+1])
		b = b[i+1:]
	}
	return out
}

var newline = []byte{'\n'}

// interner gives equal lines equal numbers.
type interner map[string]int32

func (t interner) number(line []byte) int32 {
	key := unsafe.String(unsafe.SliceData(line), len(line)) // a copy would take most of the time
	n, ok := t[key]
	if !ok {
		n = int32(len(t))
		t[key] = n
	}
	return n
}
