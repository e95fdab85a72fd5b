package store

import "encoding/binary"

// This file decodes versions without reflection, because a walk through the log decodes every
// version. Reflection takes 1.9 µs per version and this code 0.3. It accepts only what encode
// writes. The CBOR library decodes or rejects everything else.

// reader reads the CBOR that encode writes. bad is set for any other input.
type reader struct {
	b   []byte
	bad bool
}

// head reads the start of an item, whose major type must be major.
func (r *reader) head(major byte) uint64 {
	if len(r.b) == 0 || r.b[0]>>5 != major {
		r.bad = true
		return 0
	}
	n, size := uint64(r.b[0]&31), 0
	if n >= 24 {
		if n > 27 {
			r.bad = true
			return 0
		}
		size = 1 << (n - 24)
	}
	if len(r.b) < 1+size {
		r.bad = true
		return 0
	}
	switch at := r.b[1:]; size {
	case 1:
		n = uint64(at[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(at))
	case 4:
		n = uint64(binary.BigEndian.Uint32(at))
	case 8:
		n = binary.BigEndian.Uint64(at)
	}
	r.b = r.b[1+size:]
	return n
}

// uint reads a number of at most the given number of bits.
func (r *reader) uint(bits int) uint64 {
	n := r.head(0)
	if n>>(bits-1)>>1 != 0 {
		r.bad = true
	}
	return n
}

func (r *reader) int() int64 {
	major := byte(0)
	if len(r.b) > 0 && r.b[0]>>5 == 1 {
		major = 1
	}
	n := r.head(major)
	if n>>63 != 0 {
		r.bad = true
	}
	if major == 1 {
		return -1 - int64(n)
	}
	return int64(n)
}

func (r *reader) bytes(major byte) []byte {
	n := r.head(major)
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(3)) }

func (r *reader) bool() bool {
	if len(r.b) == 0 || r.b[0] != 0xf4 && r.b[0] != 0xf5 {
		r.bad = true
		return false
	}
	b := r.b[0] == 0xf5
	r.b = r.b[1:]
	return b
}

// fields reads a map whose keys are ascending numbers.
func (r *reader) fields(read func(key uint64)) {
	last := uint64(0)
	for n := r.head(5); n > 0 && !r.bad; n-- {
		key := r.head(0)
		if key <= last {
			r.bad = true
		}
		last = key
		if !r.bad {
			read(key)
		}
	}
}

// readVersion decodes a version. It returns false if encode did not produce the encoding; v is then
// undefined.
func readVersion(b []byte, v *Version) bool {
	r := reader{b: b}
	r.fields(func(key uint64) {
		switch key {
		case 1:
			v.Path = Path(r.string())
		case 2:
			v.Op = Op(r.uint(8))
		case 3:
			v.Class = Class(r.uint(8))
		case 4:
			v.From = Path(r.string())
		case 5:
			v.To = Path(r.string())
		case 6:
			v.Target = r.string()
		case 7:
			blob := r.bytes(2)
			r.bad = r.bad || len(blob) != len(v.Blob)
			copy(v.Blob[:], blob)
		case 8:
			v.NoContent = r.string()
		case 9:
			v.Time = r.int()
		case 10:
			r.stat(&v.Stat)
		case 11:
			r.actor(&v.Actor)
		case 12:
			v.Prev = r.uint(64)
		case 13:
			v.Plan = r.string()
		case 14:
			v.Idle = r.bool()
		case 15:
			v.Taken = r.int()
		case 17:
			v.Foreign = r.bool()
		case 18:
			v.Linked = r.int()
		default:
			r.bad = true
		}
	})
	return !r.bad && len(r.b) == 0
}

func (r *reader) stat(st *Stat) {
	r.fields(func(key uint64) {
		switch key {
		case 1:
			st.Dev = r.uint(64)
		case 2:
			st.Ino = r.uint(64)
		case 3:
			st.Birth = r.int()
		case 4:
			st.Mode = uint32(r.uint(32))
		case 5:
			st.Nlink = uint32(r.uint(32))
		case 6:
			st.UID = uint32(r.uint(32))
		case 7:
			st.GID = uint32(r.uint(32))
		case 8:
			st.Size = r.int()
		case 9:
			st.Mtime = r.int()
		case 10:
			st.Ctime = r.int()
		case 11:
			st.Attrs = r.string()
		default:
			r.bad = true
		}
	})
}

func (r *reader) actor(a *Actor) {
	r.fields(func(key uint64) {
		switch key {
		case 1:
			a.PID = uint32(r.uint(32))
		case 2:
			a.Start = r.uint(64)
		case 3:
			a.UID = uint32(r.uint(32))
		case 4:
			a.Comm = r.string()
		case 5:
			a.Args = r.string()
		case 6:
			a.Session = SessionID(r.string())
		case 7:
			a.Agent = r.string()
		case 8:
			a.Prompt = r.string()
		case 9:
			a.ToolCall = r.string()
		case 10:
			a.Tool = r.string()
		case 11:
			a.Uncertain = r.bool()
		case 12:
			a.Line = r.int()
		case 13:
			a.Late = r.bool()
		default:
			r.bad = true
		}
	})
}
