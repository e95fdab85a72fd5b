package diff

import (
	"bytes"
	"errors"
	"slices"

	"cachebro/store/leaf/text"
)

// The errors of Merge.
var (
	ErrSameLines = errors.New("the same lines were changed in both")
	ErrEncodings = errors.New("the two texts have different encodings")
)

// Merge returns base with the changes of both a and b, which are edited versions of base. Different
// changes of the same or adjacent lines are an error. A change of the encoding is treated like
// other changes.
func Merge(base, a, b []byte) ([]byte, error) {
	like, ok := encodingSource(base, a, b)
	if !ok {
		return nil, ErrEncodings
	}
	sa, sb := Compare(base, a), Compare(base, b)
	type edit struct {
		from, to int
		lines    [][]byte
	}
	collect := func(sc *Script) []edit {
		var out []edit
		for _, e := range sc.Edits {
			out = append(out, edit{e.OldFrom, e.OldTo, sc.New[e.NewFrom:e.NewTo]})
		}
		return out
	}
	same := func(x, y edit) bool {
		return x.from == y.from && x.to == y.to && slices.EqualFunc(x.lines, y.lines,
			func(p, q []byte) bool { return string(p) == string(q) })
	}
	ea, eb := collect(sa), collect(sb)
	var all []edit
	for len(ea) > 0 || len(eb) > 0 {
		switch {
		case len(eb) == 0 || len(ea) > 0 && ea[0].to < eb[0].from:
			all, ea = append(all, ea[0]), ea[1:]
		case len(ea) == 0 || eb[0].to < ea[0].from:
			all, eb = append(all, eb[0]), eb[1:]
		case same(ea[0], eb[0]):
			all = append(all, ea[0])
			ea, eb = ea[1:], eb[1:]
		default:
			return nil, ErrSameLines
		}
	}
	var out [][]byte
	at := 0
	for _, e := range all {
		out = append(append(out, sa.Old[at:e.from]...), e.lines...)
		at = e.to
	}
	out = append(out, sa.Old[at:]...)
	return text.Like(like, bytes.Join(out, nil))
}

// encodingSource returns the content whose encoding the merged text gets. It returns false if lines
// of an unknown code page would be mixed with lines in UTF-8.
func encodingSource(base, a, b []byte) (like []byte, ok bool) {
	o, x, y := text.EncodingOf(base), text.EncodingOf(a), text.EncodingOf(b)
	if (x == text.SingleByte) != (y == text.SingleByte) && !ascii(a) && !ascii(b) {
		return nil, false
	}
	switch {
	case x == y, y == o:
		return a, true
	case x == o:
		return b, true
	}
	return nil, false
}

func ascii(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= 0x80 })
}
