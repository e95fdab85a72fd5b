//go:build linux && (amd64 || arm64)

package notifier

import (
	"encoding/binary"
	"errors"
)

// Only an ancestor may read a process's memory (Yama). So it packs what a call points to,
// and whoever has to decide may be another process.

// memory is what the arguments of a call point to.
type memory struct {
	names [2]string
	args  [2]int8
	how   uint64 // flags of openat2
}

func (m *memory) name(arg int8) (string, error) {
	for i, a := range m.args {
		if a == arg {
			return m.names[i], nil
		}
	}
	return "", ErrHidden
}

// Pack appends to b what AsPacked reads: the notice, as it lies in raw, and what it
// points to.
func (n *Notice) Pack(b, raw []byte) ([]byte, error) {
	c, ok := Calls[uint32(n.NR)]
	if !ok {
		return nil, errors.New("the call is unknown")
	}
	b = append(b, raw[:NoticeSize]...)
	how := uint64(0)
	if c.Op == Open2 {
		var err error
		how, err = n.OpenFlags(c)
		if err != nil {
			return nil, err
		}
	}
	b = binary.NativeEndian.AppendUint64(b, how)
	for _, arg := range []int8{c.Path, c.Path2} {
		name := ""
		if arg >= 0 && n.Args[arg] != 0 {
			var err error
			name, err = n.Name(arg)
			if err != nil {
				return nil, err
			}
		}
		b = append(b, byte(arg))
		b = binary.NativeEndian.AppendUint16(b, uint16(len(name)))
		b = append(b, name...)
	}
	return b, nil
}

// AsPacked is the notice that Pack made b of.
func AsPacked(b []byte) (*Notice, error) {
	errShort := errors.New("a packed call is cut short")
	if len(b) < NoticeSize+8 {
		return nil, errShort
	}
	n := &Notice{}
	n.decode(b)
	m := &memory{how: binary.NativeEndian.Uint64(b[NoticeSize:])}
	b = b[NoticeSize+8:]
	for i := range m.names {
		if len(b) < 3 {
			return nil, errShort
		}
		size := int(binary.NativeEndian.Uint16(b[1:]))
		if len(b) < 3+size {
			return nil, errShort
		}
		m.args[i], m.names[i], b = int8(b[0]), string(b[3:3+size]), b[3+size:]
	}
	n.memory = m
	return n, nil
}
