package undo

import (
	"crypto/sha256"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
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
	out, err := diff.Merge(texts[0], texts[1], texts[2])
	if err != nil {
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
