package undo

import (
	"cmp"
	"crypto/sha256"
	"fmt"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// contents finds out which contents a plan can write: those of the store, and those made for the
// plan.
type contents struct {
	store *store.Store
	made  map[store.Hash][]byte // Draft.Made
	held  map[store.Hash]bool   // contents that the process that carries out the plan has
	kept  map[store.Hash]place  // the contents that were looked up in the store
}

// place is where a content is in the store. kept is false if the store does not have it.
type place struct {
	content.Place
	kept bool
}

func (c *contents) add(b []byte) store.Hash {
	h := store.Hash(sha256.Sum256(b))
	c.made[h] = append([]byte{}, b...) // not nil, even if empty
	return h
}

// has reports whether a plan can write this content. The result is cached.
func (c *contents) has(h store.Hash) bool {
	if c.made[h] != nil || c.held[h] {
		return true
	}
	if _, asked := c.kept[h]; !asked {
		c.lookUp([]store.Hash{h})
	}
	return c.kept[h].kept
}

// lookUp looks up contents in advance, for later calls of has. hs must be sorted.
func (c *contents) lookUp(hs []store.Hash) {
	c.store.Contents().Places(hs, func(at content.Place, kept bool) { c.kept[at.Hash] = place{at, kept} })
}

// text returns a content if it is text from which edits can be removed. An empty file may have no
// content.
func (c *contents) text(h store.Hash) ([]byte, bool) {
	if b, ok := c.made[h]; ok {
		return b, true
	}
	b, err := c.store.Content(h)
	if err != nil {
		return nil, false
	}
	_, err = text.Like(b, nil) // it must be possible to write the text back
	return b, err == nil
}

// missing reports whether the store lacks the content of a file or the target of a link.
func (c *contents) missing(st state) bool {
	switch {
	case st.link():
		return st.target == ""
	case !st.regular():
		return false
	case st.blob == (store.Hash{}):
		return st.size > 0
	}
	return !c.has(st.blob)
}

// whyNotStored returns why a content cannot be stored, or "" if it can.
func (c *contents) whyNotStored(st state) string {
	switch {
	case st.link():
		return "the target of the link is unknown"
	case st.size > c.store.Options().MaxBlob:
		return fmt.Sprintf("larger than %d MiB", c.store.Options().MaxBlob>>20)
	case st.noContent == store.NoContentPurged:
		return st.noContent
	}
	return ""
}

// cannotMake returns why a node cannot be made again, or "" if it can, and the size of its content.
func (c *contents) cannotMake(w state) (why string, size int64) {
	switch {
	case w.dir():
	case w.link() && w.target == "":
		return "the target of the link is unknown", 0
	case w.link():
	case w.regular() && !c.has(w.blob):
		return cmp.Or(w.noContent, "the content is no longer stored"), w.size
	case !w.regular():
		return "devices, sockets and pipes are not restored", 0
	}
	return "", 0
}

// mergeContents undoes one change and keeps later changes of others. before and left are the states
// before and after the change, and now is the present state. mergeContents returns false if the
// changes overlap or one of the three is not text. It adds the result to the contents.
func (c *contents) mergeContents(left, before, now state) (state, bool) {
	if !left.regular() || !before.regular() || !now.regular() {
		return state{}, false
	}
	var texts [3][]byte
	for i, h := range [...]store.Hash{left.blob, before.blob, now.blob} {
		b, ok := c.made[h]
		var err error
		if !ok {
			b, err = c.store.Content(h)
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
	return c.with(now, out), true
}

// with returns st with the content b, and remembers b, because no version has it.
func (c *contents) with(st state, b []byte) state {
	st.blob, st.size = c.add(b), int64(len(b))
	st.mtime, st.seq = 0, 0
	return st
}
