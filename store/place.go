package store

import (
	"bytes"
	"cmp"

	badger "github.com/dgraph-io/badger/v4"
)

// place says where a content lies: in a frame, or by itself under its hash. Who
// reads thousands of contents reads them in this order: a look-up decodes a
// block of dozens of keys, and one content of a frame the whole frame.
type place struct {
	kept  bool
	frame uint64 // 0: none
	at    int64
	hash  Hash
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.frame, b.frame), cmp.Compare(a.at, b.at), compareHashes(a.hash, b.hash))
}

func compareHashes(a, b Hash) int { return bytes.Compare(a[:], b[:]) }

// placeOf finds a content; not kept if in doubt, like Has.
func (s *Store) placeOf(h Hash) place {
	at := place{hash: h}
	s.view(func(txn *badger.Txn) error {
		hd, err := readHeader(txn, h)
		if at.kept = err == nil; at.kept && hd.enc == encFrame {
			at.frame, at.at = hd.frame, hd.at
		}
		return nil
	})
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
