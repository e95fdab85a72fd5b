package diff

import "slices"

// Merge applies both changes of a common text, a and b. Changes that touch the
// same or adjacent lines are refused unless they are the same change.
func Merge(base, a, b []byte) ([]byte, bool) {
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
			all, ea, eb = append(all, ea[0]), ea[1:], eb[1:]
		default:
			return nil, false
		}
	}
	var out []byte
	at := 0
	for _, e := range all {
		for _, l := range sa.Old[at:e.from] {
			out = append(out, l...)
		}
		for _, l := range e.lines {
			out = append(out, l...)
		}
		at = e.to
	}
	for _, l := range sa.Old[at:] {
		out = append(out, l...)
	}
	return out, true
}
