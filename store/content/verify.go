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
	"cachebro/store/leaf/cache"

	badger "github.com/dgraph-io/badger/v4"
)

// maxHeld limits the bytes that Verify holds in memory for the bases of deltas.
const maxHeld = 128 << 20

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
func (c *chains) each(do func(item) error) error {
	var stack []item
	walk := func(root item) error {
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if err := do(at); err != nil {
				return err
			}
			stack = append(stack, c.deltas[at.hash]...)
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
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// held is a content in memory, for the deltas against it.
type held struct {
	b   []byte
	sum hash.Hash // has already hashed b
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
	bases := cache.New[Hash](maxHeld, func(c held) int { return len(c.b) })
	err = order.each(func(at item) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := s.checkBlob(at, bases)
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
			bases.Put(at.hash, c)
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
func (s *Store) checkBlob(at item, bases *cache.Cache[Hash, held]) (c held, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
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
		var base held
		if hd.based() {
			base, _ = bases.Get(hd.base)
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
		return held{}, err
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
