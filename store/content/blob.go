package content

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// Prefixes of keys. The package comment of store describes them.
const (
	kBlob  = 'b'
	kPiece = 'B'
	kFrame = 'F'
)

func keyBlob(h Hash) []byte { return append([]byte{kBlob}, h[:]...) }

func keyPiece(h Hash, n int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{kPiece}, h[:]...), uint32(n))
}

// IsKey reports whether a key of the database belongs to this package.
func IsKey(key []byte) bool {
	return len(key) > 0 && (key[0] == kBlob || key[0] == kPiece || key[0] == kFrame)
}

// The encodings of a blob's payload.
const (
	encRaw   = 0 // the bytes themselves
	encZstd  = 1 // zstd of the bytes
	encDelta = 2 // the first pre and the last suf bytes are from base; the bytes between are zstd with base[dictAt:dictAt+dictLen] as raw dictionary
	encGraft = 3 // like encDelta, but the bytes between are not compressed
	encFrame = 4 // the content begins at offset at of a frame (see frame.go)
)

const (
	// maxDepth is the largest number of deltas in a chain, without tails. The next blob is stored
	// whole.
	maxDepth = 16
	// maxLinks bounds the length of a chain, including tails (see tail.go).
	maxLinks = 200
	// pieceSize is the largest part of a payload stored under one key.
	pieceSize = 1 << 20
)

// header precedes the payload under a b key.
type header struct {
	enc     byte
	depth   int // number of deltas in the chain of bases, without tails
	links   int // number of blobs in the chain of bases
	size    int64
	pieces  int // 0: the payload follows the header
	stored  int64
	base    Hash
	pre     int64
	suf     int64
	dictAt  int64
	dictLen int64
	frame   uint64
	at      int64
}

func (h header) based() bool { return h.enc == encDelta || h.enc == encGraft }

func (h header) append(b []byte) []byte {
	b = append(b, h.enc, byte(h.depth))
	for _, n := range [...]int64{int64(h.links), h.size, int64(h.pieces), h.stored} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if h.based() {
		b = append(b, h.base[:]...)
		for _, n := range [...]int64{h.pre, h.suf, h.dictAt, h.dictLen} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	if h.enc == encFrame {
		b = binary.AppendUvarint(b, h.frame)
		b = binary.AppendUvarint(b, uint64(h.at))
	}
	return b
}

// loose reports whether a repack would put the content into a frame.
func (h header) loose() bool {
	return h.enc != encFrame && (h.size <= maxInFrame || h.size <= frameSize && !h.based())
}

var errHeader = fmt.Errorf("%w: blob header", db.ErrDamaged)

// parseHeader returns the header and the bytes after it.
func parseHeader(b []byte) (header, []byte, error) {
	if len(b) < 2 || b[0] > encFrame {
		return header{}, nil, errHeader
	}
	h := header{enc: b[0], depth: int(b[1])}
	b = b[2:]
	bad := false
	num := func() int64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > 1<<40 {
			bad, b = true, nil
			return 0
		}
		b = b[k:]
		return int64(n)
	}
	h.links, h.size, h.pieces, h.stored = int(num()), num(), int(num()), num()
	if h.based() {
		if len(b) < len(h.base) {
			return h, nil, errHeader
		}
		copy(h.base[:], b)
		b = b[len(h.base):]
		h.pre, h.suf, h.dictAt, h.dictLen = num(), num(), num(), num()
	}
	if h.enc == encFrame {
		h.frame, h.at = uint64(num()), num()
	}
	if bad || h.pre+h.suf > h.size || h.size > 1<<32 {
		return h, nil, errHeader
	}
	return h, b, nil
}

// assemble decodes a blob without verifying it. It calls itself for each base of the chain. Writers
// limit a chain to maxLinks. The limit here stops at a cycle caused by damage.
func (s *Store) assemble(txn *badger.Txn, h Hash, links int) ([]byte, error) {
	if b, ok := s.contents.Get(h); ok && links > 0 {
		return b, nil
	}
	if links > 2*maxLinks {
		return nil, fmt.Errorf("%w: endless chain", db.ErrDamaged)
	}
	val, err := readValue(txn, h)
	if err != nil {
		if links > 0 && errors.Is(err, ErrPruned) {
			err = fmt.Errorf("%w: base %x is missing", db.ErrDamaged, h[:6])
		}
		return nil, err
	}
	return s.build(txn, h, val, links)
}

// build assembles a blob whose value was already read.
func (s *Store) build(txn *badger.Txn, h Hash, val []byte, links int) ([]byte, error) {
	hd, payload, err := wholeBlob(txn, h, val)
	if err != nil {
		return nil, err
	}
	if hd.enc == encFrame {
		return s.unpack(txn, hd)
	}
	if !hd.based() {
		return s.codecs.decode(hd, payload, nil)
	}
	base, err := s.assemble(txn, hd.base, links+1)
	if err != nil {
		return nil, err
	}
	return s.codecs.decode(hd, payload, base)
}

const (
	// maxValues limits the bytes of blob values that a walk through all blobs holds in memory. The
	// blobs are then read in another order, which would decode a block of keys for each blob whose
	// value is not in memory.
	maxValues = 48 << 20
	// smallValue is the largest value that is held in memory.
	smallValue = 1 << 10
)

// values counts the bytes of values held in memory.
type values int

// keep returns a copy of a value, or nil if the limits do not allow it. Without a copy, the value
// has to be read again.
func (n *values) keep(val []byte) []byte {
	if len(val) > smallValue || int(*n)+len(val) > maxValues {
		return nil
	}
	*n += values(len(val))
	return bytes.Clone(val)
}

// readValue returns the value of a content's b key.
func readValue(txn *badger.Txn, h Hash) ([]byte, error) {
	item, err := txn.Get(keyBlob(h))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrPruned
	}
	if err != nil {
		return nil, db.Damaged(err)
	}
	val, err := item.ValueCopy(nil)
	return val, db.Damaged(err)
}

// wholeBlob parses the value of a content's b key, and reads the pieces stored under other keys.
func wholeBlob(txn *badger.Txn, h Hash, val []byte) (header, []byte, error) {
	hd, payload, err := parseHeader(val)
	if err != nil || hd.pieces == 0 {
		return hd, payload, err
	}
	payload = make([]byte, 0, min(hd.stored, 64<<20))
	for n := range hd.pieces {
		item, err := txn.Get(keyPiece(h, n))
		if err != nil {
			return hd, nil, fmt.Errorf("%w: piece %d of %d: %w", db.ErrDamaged, n, hd.pieces, err)
		}
		if err := item.Value(func(v []byte) error { payload = append(payload, v...); return nil }); err != nil {
			return hd, nil, db.Damaged(err)
		}
	}
	return hd, payload, nil
}

// readHeader reads only the header.
func readHeader(txn *badger.Txn, h Hash) (hd header, err error) {
	item, err := txn.Get(keyBlob(h))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return hd, ErrPruned
	}
	if err != nil {
		return hd, db.Damaged(err)
	}
	return headerIn(item)
}

// headerIn reads the header in the item of a b key.
func headerIn(item *badger.Item) (hd header, err error) {
	err = item.Value(func(v []byte) (err error) { hd, _, err = parseHeader(v); return })
	return hd, db.Damaged(err)
}

// eachBlob calls fn with all headers, sorted by hash.
func (s *Store) eachBlob(fn func(Hash, header) error) error {
	return s.db.View(func(txn *badger.Txn) error { return eachBlob(txn, fn) })
}

func eachBlob(txn *badger.Txn, fn func(Hash, header) error) error {
	return eachValue(txn, func(h Hash, hd header, _ []byte) error { return fn(h, hd) })
}

// eachValue is like eachBlob, but also passes the value of each b key, which is valid only during
// the call.
func eachValue(txn *badger.Txn, fn func(h Hash, hd header, val []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false, Prefix: []byte{kBlob}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != 33 {
			continue
		}
		asked := false
		var failed error
		pass := func(v []byte) error {
			hd, _, err := parseHeader(v)
			if err != nil {
				hd = header{} // fsck reports the damage
			}
			asked, failed = true, fn(Hash(key[1:]), hd, v)
			return nil
		}
		if it.Item().Value(pass); !asked {
			failed = fn(Hash(key[1:]), header{}, nil)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}
