package content

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// mostHeld limits the bytes that Verify holds in memory for the bases of deltas.
const mostHeld = 64 << 20

// chains defines the order in which Verify reads contents. Verify goes frame by frame, and from
// each content to the deltas against it. So nearly every content is decoded only once, however long
// the chains are.
type chains struct {
	roots  []rootItem
	deltas map[Hash][]item // for each base, the deltas against it
	all    []Hash          // sorted
}

// item is a content to verify.
type item struct {
	hash Hash
	val  []byte // value of the content's key; nil: not read
}

// rootItem is a content without a base.
type rootItem struct {
	item
	frame uint64
}

// link is a content to be read. Its base is one level lower.
type link struct {
	item
	level int
	last  bool // the last delta against its base
}

func (s *Store) chains() (*chains, error) {
	c := &chains{deltas: map[Hash][]item{}}
	var kept values
	err := s.db.View(func(txn *badger.Txn) error {
		return eachValue(txn, func(h Hash, hd header, val []byte) error {
			c.all = append(c.all, h)
			f := item{h, kept.keep(val)}
			if hd.based() {
				c.deltas[hd.base] = append(c.deltas[hd.base], f)
			} else {
				c.roots = append(c.roots, rootItem{f, hd.frame})
			}
			return nil
		})
	})
	slices.SortStableFunc(c.roots, func(a, b rootItem) int { return cmp.Compare(a.frame, b.frame) })
	return c, err
}

// each calls do once for every content, and visits a base before the deltas against it. Contents
// whose chain is damaged come last.
func (c *chains) each(do func(link) error) error {
	var stack []link
	walk := func(root item) error {
		stack = append(stack[:0], link{item: root})
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if err := do(at); err != nil {
				return err
			}
			for i, f := range c.deltas[at.hash] {
				stack = append(stack, link{f, at.level + 1, i == 0}) // a stack returns the first entry last
			}
			delete(c.deltas, at.hash)
		}
		return nil
	}
	for _, r := range c.roots {
		if err := walk(r.item); err != nil {
			return err
		}
	}
	// The remaining contents are damaged. Visit each separately, because following a cycle would
	// not end.
	var rest []item
	for _, without := range c.deltas {
		rest = append(rest, without...)
	}
	slices.SortFunc(rest, func(a, b item) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	clear(c.deltas)
	for _, f := range rest {
		if err := do(link{item: f}); err != nil {
			return err
		}
	}
	return nil
}

// held holds the contents of the chain from its root to the current content.
type held struct {
	levels []heldContent
	bytes  int64
}

type heldContent struct {
	hash Hash
	b    []byte    // nil if not in memory
	sum  hash.Hash // has already hashed b
}

// base returns the content one level lower, without its bytes if they are not in memory.
func (k *held) base(level int, h Hash) heldContent {
	if level == 0 || level > len(k.levels) || k.levels[level-1].hash != h {
		return heldContent{}
	}
	return k.levels[level-1]
}

// drop releases the contents at the level of the link and above. If no other delta needs the link's
// base, drop releases the base as well.
func (k *held) drop(at link) {
	from := at.level
	if at.last {
		from--
	}
	for i := from; i < len(k.levels); i++ {
		k.bytes -= int64(len(k.levels[i].b))
		k.levels[i].b = nil
	}
	k.levels = k.levels[:min(at.level, len(k.levels))]
}

// put holds a content in memory for the deltas against it. Above mostHeld it releases the bases
// with the lowest levels; they are decoded again when needed.
func (k *held) put(level int, c heldContent) {
	for len(k.levels) < level {
		k.levels = append(k.levels, heldContent{})
	}
	k.levels = append(k.levels, c)
	k.bytes += int64(len(c.b))
	for i := 0; i < level && k.bytes > mostHeld; i++ {
		k.bytes -= int64(len(k.levels[i].b))
		k.levels[i].b = nil
	}
}

// Verified is the result of Verify.
type Verified struct {
	Blobs int
	Bytes int64         // bytes of contents that were read and verified
	Bad   map[Hash]bool // the damaged contents
	// Unread is the read error that stopped the check, if any. It is not damage.
	Unread error

	all []Hash // sorted
}

// Has reports whether a content was stored, damaged or not.
func (v *Verified) Has(h Hash) bool {
	_, ok := slices.BinarySearchFunc(v.all, h, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
	return ok
}

// Verify reads every content and compares its hash. It calls problem with a description of each
// fault. The caller holds the lock of s.
func (s *Store) Verify(ctx context.Context, problem func(format string, a ...any)) (v Verified, err error) {
	v.Bad = map[Hash]bool{}
	order, err := s.chains()
	if err != nil {
		v.Unread = err
		return v, nil
	}
	v.all = order.all
	s.Forget() // the bytes must come from the disk
	var keep held
	err = order.each(func(at link) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := s.checkBlob(at, &keep)
		keep.drop(at)
		switch {
		case errors.Is(err, ErrPruned):
			return nil // dropped meanwhile
		case errors.Is(err, errUnread):
			return err
		}
		v.Blobs++
		v.Bytes += int64(len(c.b))
		if err != nil {
			v.Bad[at.hash] = true
			problem("content %x: %v", at.hash[:8], err)
		} else if len(order.deltas[at.hash]) > 0 {
			keep.put(at.level, c)
		}
		return nil
	})
	if errors.Is(err, errUnread) {
		v.Unread, v.Bad = err, map[Hash]bool{} // because of the read error, none is known to be damaged
		return v, nil
	}
	return v, err
}

// checkBlob reads one content, using its base if the base is in memory. If the content begins with
// its whole base, as in a log file, only the bytes after it are hashed.
func (s *Store) checkBlob(at link, keep *held) (heldContent, error) {
	c := heldContent{hash: at.hash}
	err := s.db.View(func(txn *badger.Txn) error {
		val, err := at.val, error(nil)
		if val == nil {
			val, err = readValue(txn, at.hash)
		}
		if err != nil {
			return err
		}
		hd, _, err := parseHeader(val)
		if err != nil {
			return err
		}
		base := heldContent{}
		if hd.based() {
			base = keep.base(at.level, hd.base)
		}
		if base.b != nil {
			var payload []byte
			hd, payload, err = wholeBlob(txn, at.hash, val)
			if err == nil {
				c.b, err = s.codecs.decode(hd, payload, base.b)
			}
		} else {
			c.b, err = s.build(txn, at.hash, val, 0)
		}
		if err != nil {
			return err
		}
		hashed := 0
		if base.b != nil && bytes.HasPrefix(c.b, base.b) {
			if sum, ok := base.sum.(hash.Cloner); ok {
				c.sum, err = sum.Clone()
				if err != nil {
					return err
				}
				hashed = len(base.b)
			}
		}
		if c.sum == nil {
			c.sum = sha256.New()
		}
		c.sum.Write(c.b[hashed:])
		if Hash(c.sum.Sum(nil)) != at.hash {
			err = fmt.Errorf("%w: other bytes than were stored", db.ErrDamaged)
		}
		return err
	})
	if err != nil {
		return heldContent{}, err
	}
	return c, nil
}

// StrayPieces lists the keys of pieces whose content is not in the snapshot.
func StrayPieces(ctx context.Context, txn *badger.Txn) (keys [][]byte, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kPiece}})
	defer it.Close()
	for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
		key := it.Item().KeyCopy(nil)
		if kept := len(key) == 37; kept {
			kept, err = InSnapshot(txn, Hash(key[1:33]))
			if err == nil && kept {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}
