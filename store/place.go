package store

import (
	"bytes"

	"cachebro/store/content"
)

// place says where a content lies, if it is kept.
type place struct {
	content.Place
	kept bool
}

func comparePlaces(a, b place) int { return content.ComparePlaces(a.Place, b.Place) }

// placeOf finds a content; not kept if in doubt, like Has.
func (s *Store) placeOf(h Hash) (at place) {
	at.Place, at.kept = s.contents.Place(h)
	return at
}

// readMost bounds what a plan keeps of the contents that were read to make it.
const readMost = 24 << 20

// Read hands over contents that were read to count their lines, so that who
// carries the plan out need not read them again. It has some of those that the
// plan writes, and only the first call has any.
func (p *Plan) Read() map[Hash][]byte {
	read := p.read
	p.read = nil
	return read
}

func compareHashes(a, b Hash) int { return bytes.Compare(a[:], b[:]) }
