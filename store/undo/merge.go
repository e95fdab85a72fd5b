package undo

import (
	"crypto/sha256"
	"slices"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/text"
)

// merge removes the change from before to left from now, which somebody else made
// from left. It returns false when the lines of the two changes meet, or one of the
// three is no text. The plan keeps the result.
func (m *maker) merge(left, before, now state) (state, bool) {
	if !left.regular() || !before.regular() || !now.regular() || now.perm() != left.perm() && before.perm() != left.perm() {
		return state{}, false
	}
	var texts [3][]byte
	for i, h := range [...]store.Hash{left.blob, before.blob, now.blob} {
		b, ok := m.plan.Made[h]
		var err error
		if !ok {
			b, err = m.store.Content(h)
		}
		if err != nil || text.Binary(b) {
			return state{}, false
		}
		texts[i] = b
	}
	out, ok := merge3(texts[0], texts[1], texts[2])
	if !ok {
		return state{}, false
	}
	h := store.Hash(sha256.Sum256(out))
	m.plan.Made[h] = out
	if before.perm() != left.perm() {
		now.mode = before.mode
	}
	now.blob, now.size, now.mtime, now.seq = h, int64(len(out)), 0, 0
	return now, true
}

// merge3 applies both changes of a common text, a and b. Changes that touch the
// same or adjacent lines are refused unless they are the same change.
func merge3(base, a, b []byte) ([]byte, bool) {
	sa, sb := diff.Compare(base, a), diff.Compare(base, b)
	type edit struct {
		from, to int
		lines    [][]byte
	}
	collect := func(sc *diff.Script) []edit {
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
