package diff

import "bytes"

// tidy slides pure insertions and deletions along equal lines. An edit slides up if it then meets
// the previous edit, which gives fewer hunks. Otherwise it slides down as far as possible. An added
// function then begins after the previous function's closing brace, as in git's diffs.
func tidy(a, b [][]byte, in []Edit) []Edit {
	out := make([]Edit, 0, len(in))
	for i, e := range in {
		next := Edit{OldFrom: len(a), NewFrom: len(b)}
		if i+1 < len(in) {
			next = in[i+1]
		}
		var prev Edit
		if len(out) > 0 {
			prev = out[len(out)-1]
		}
		moved := e
		for slidesUp(a, b, moved, prev) {
			moved = shift(moved, -1)
		}
		if len(out) > 0 && touches(prev, moved) {
			out[len(out)-1] = Edit{prev.OldFrom, moved.OldTo, prev.NewFrom, moved.NewTo}
			continue
		}
		for slidesDown(a, b, e, next) {
			e = shift(e, 1)
		}
		out = append(out, e)
	}
	return join(out)
}

func shift(e Edit, by int) Edit {
	return Edit{e.OldFrom + by, e.OldTo + by, e.NewFrom + by, e.NewTo + by}
}

// touches reports whether p and e have no equal line between them.
func touches(p, e Edit) bool { return p.OldTo == e.OldFrom && p.NewTo == e.NewFrom }

func slidesUp(a, b [][]byte, e, prev Edit) bool {
	if e.OldFrom <= prev.OldTo || e.NewFrom <= prev.NewTo {
		return false
	}
	switch {
	case e.OldFrom == e.OldTo:
		return bytes.Equal(b[e.NewFrom-1], b[e.NewTo-1])
	case e.NewFrom == e.NewTo:
		return bytes.Equal(a[e.OldFrom-1], a[e.OldTo-1])
	}
	return false
}

func slidesDown(a, b [][]byte, e, next Edit) bool {
	if e.OldTo >= next.OldFrom || e.NewTo >= next.NewFrom {
		return false
	}
	switch {
	case e.OldFrom == e.OldTo:
		return bytes.Equal(b[e.NewFrom], b[e.NewTo])
	case e.NewFrom == e.NewTo:
		return bytes.Equal(a[e.OldFrom], a[e.OldTo])
	}
	return false
}

// join merges edits that meet after sliding down.
func join(in []Edit) []Edit {
	out := in[:0]
	for _, e := range in {
		if n := len(out); n > 0 && touches(out[n-1], e) {
			out[n-1].OldTo, out[n-1].NewTo = e.OldTo, e.NewTo
			continue
		}
		out = append(out, e)
	}
	return out
}
