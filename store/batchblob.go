package store

import (
	"errors"
	"fmt"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// store keeps the content of a change; cur is the newest version of the path
// that it follows. i is the change's index for BaseError.
func (b *batch) store(c *Change, i int, cur Version) (Hash, error) {
	if c.TailFrom > 0 {
		return b.tail(c, i)
	}
	if int64(len(c.Content)) > b.s.opt.MaxBlob {
		return Hash{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(c.Content))
	}
	h, sum := hashFrom(nil, c.Content)
	if c.Node != 0 && inodeOf(c.Stat) != (inode{}) {
		b.nodes[c.Node] = rootNode(inodeOf(c.Stat), h, int64(len(c.Content)), sum)
	}
	if b.has(h) { // what is brought back, copied or written again
		return h, nil
	}
	return h, b.putNew(h, c.Content, b.predecessor(cur))
}

// tail keeps what was appended to the previous content of the node.
func (b *batch) tail(c *Change, i int) (Hash, error) {
	n := b.node(c)
	if n == nil || c.TailFrom > n.size {
		return Hash{}, &BaseError{Index: i, Path: c.Path}
	}
	if c.TailFrom == n.size && len(c.Content) == 0 {
		return n.hash, nil
	}
	if c.TailFrom+int64(len(c.Content)) > b.s.opt.MaxBlob {
		return Hash{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, c.TailFrom+int64(len(c.Content)))
	}
	if c.TailFrom == n.size && n.sum != nil {
		h, sum := hashFrom(n.sum, c.Content)
		next, from, more := n.appended(h, c.Content, sum)
		base, err := b.header(from.hash)
		if err == nil && base.links < maxLinks && base.size == from.size {
			b.nodes[c.Node] = next
			if b.has(h) {
				return h, nil
			}
			hd, payload, err := b.s.codecs.tail(more, from.hash, base, from.size)
			if err != nil {
				return h, err
			}
			b.pend(h, &pending{header: hd, payload: payload})
			return h, nil
		}
	}
	// Something else than a plain append, or a chain at its end: all of it.
	base, err := b.content(n.hash)
	if err != nil || int64(len(base)) < c.TailFrom {
		return Hash{}, &BaseError{Index: i, Path: c.Path}
	}
	full := append(base[:c.TailFrom:c.TailFrom], c.Content...)
	h, sum := hashFrom(nil, full)
	if c.Node != 0 {
		b.nodes[c.Node] = rootNode(n.inode, h, int64(len(full)), sum)
	}
	return h, b.putHashed(h, full, n.hash)
}

// node finds what a node held before: the newest content of its path, which is
// known to be of the same inode. The table of nodes only saves hashing it
// again. It is not believed alone: node numbers start anew with each mount, and
// a file may have changed while nothing was mounted. With several names and
// nothing in the table the content may have changed under another one.
func (b *batch) node(c *Change) *node {
	cur, live, err := b.live(c.Path)
	if err != nil || !live || cur.Blob == (Hash{}) || inodeOf(cur.Stat) != inodeOf(c.Stat) {
		return nil
	}
	n, ok := b.nodes[c.Node]
	if !ok {
		n = b.s.nodes.get(c.Node)
	}
	if n != nil && n.inode == inodeOf(c.Stat) && n.hash == cur.Blob {
		return n
	}
	if c.Stat.Ino == 0 || cur.Stat.Nlink > 1 || c.Stat.Nlink > 1 {
		return nil
	}
	hd, err := b.header(cur.Blob)
	if err != nil {
		return nil
	}
	return rootNode(inodeOf(c.Stat), cur.Blob, hd.size, nil)
}

func (b *batch) forget(node uint64) {
	if node != 0 {
		b.nodes[node] = nil
	}
}

// predecessor is the content that the next one of this path probably
// resembles: the newest, or the last one before it was deleted.
func (b *batch) predecessor(cur Version) Hash {
	for range 3 {
		if cur.Seq == 0 || cur.Blob != (Hash{}) || cur.Prev == 0 {
			break
		}
		item, err := b.w.Txn.Get(keyVersion(cur.Prev))
		if err != nil {
			break
		}
		older := Version{Seq: cur.Prev}
		if item.Value(func(val []byte) error { return decode(val, &older) }) != nil {
			break
		}
		cur = older
	}
	return cur.Blob
}

// put keeps a content, as a delta against near if that is worth it.
func (b *batch) put(content []byte, near Hash) (Hash, error) {
	if int64(len(content)) > b.s.opt.MaxBlob {
		return Hash{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(content))
	}
	h, _ := hashFrom(nil, content)
	return h, b.putHashed(h, content, near)
}

func (b *batch) putHashed(h Hash, content []byte, near Hash) error {
	if b.has(h) {
		return nil
	}
	return b.putNew(h, content, near)
}

// putNew keeps a content that the store does not have.
func (b *batch) putNew(h Hash, content []byte, near Hash) error {
	if content == nil {
		content = []byte{}
	}
	if hd, ok := b.offered(h, content); ok {
		b.pend(h, &pending{header: hd, content: content})
		return nil
	}
	hd, payload, err := b.encode(h, content, near)
	if err != nil {
		return err
	}
	b.pend(h, &pending{header: hd, payload: payload, content: content})
	return nil
}

// encode picks the smaller of plain and delta.
func (b *batch) encode(h Hash, content []byte, near Hash) (header, []byte, error) {
	if near == (Hash{}) || near == h || len(content) < 64 {
		return b.s.codecs.plain(content)
	}
	base, err := b.header(near)
	if err != nil || base.depth >= maxDepth || base.links >= maxLinks {
		return b.s.codecs.plain(content)
	}
	old, err := b.content(near)
	if err != nil {
		return b.s.codecs.plain(content)
	}
	dh, delta, err := b.s.codecs.delta(content, old, near, base)
	if err != nil {
		return dh, nil, err
	}
	if len(delta) <= len(content)/8 {
		return dh, delta, nil
	}
	ph, plain, err := b.s.codecs.plain(content)
	if err != nil || len(plain) <= len(delta)+len(near)+8 {
		return ph, plain, err
	}
	return dh, delta, nil
}

func (b *batch) pend(h Hash, p *pending) {
	if _, ok := b.blobs[h]; !ok {
		b.order = append(b.order, h)
	}
	b.blobs[h] = p
}

func (b *batch) has(h Hash) bool {
	if b.blobs[h] != nil {
		return true
	}
	_, err := b.w.Txn.Get(keyBlob(h))
	return err == nil
}

func (b *batch) header(h Hash) (header, error) {
	if p := b.blobs[h]; p != nil {
		return p.header, nil
	}
	return readHeader(b.w.Txn, h)
}

func (b *batch) content(h Hash) ([]byte, error) {
	p := b.blobs[h]
	if p == nil {
		out, err := b.s.contentIn(b.w.Txn, h)
		if err == nil {
			b.s.contents.put(h, out)
		}
		return out, err
	}
	if p.content == nil {
		// A tail of this batch: its base may be of this batch, too.
		var base []byte
		if p.based() {
			var err error
			if base, err = b.content(p.base); err != nil {
				return nil, err
			}
		}
		out, err := b.s.codecs.decode(p.header, p.payload, base)
		if err != nil {
			return nil, err
		}
		p.content = out
	}
	return p.content, nil
}

// rebase turns a content that is stored whole into a delta against near, when
// that makes it smaller and makes no circle.
func (b *batch) rebase(h, near Hash) error {
	hd, err := b.header(h)
	if err != nil || h == near || hd.based() || hd.enc == encFrame || hd.stored != 0 && hd.stored < 256 || hd.size < 256 {
		return nil // missing contents are fsck's business
	}
	for at, n := near, 0; ; n++ {
		x, err := b.header(at)
		if err != nil || at == h || n > 2*maxLinks {
			return nil
		}
		if !x.based() {
			break
		}
		at = x.base
	}
	content, err := b.content(h)
	if err != nil {
		return nil
	}
	dh, delta, err := b.encode(h, content, near)
	if err != nil || !dh.based() {
		return err
	}
	p := &pending{header: dh, payload: delta, content: content}
	if was := b.blobs[h]; was == nil {
		p.was, p.pieces = &hd, hd.pieces
	} else {
		p.was = was.was
	}
	b.pend(h, p)
	return nil
}

// writeBlob sets a blob's keys.
func (b *batch) writeBlob(h Hash, p *pending) error {
	if p.enc != encFrame {
		p.stored = int64(len(p.payload))
	}
	if p.was != nil {
		b.uncount(*p.was)
	}
	b.count(p.header)
	for n := (len(p.payload) + pieceSize - 1) / pieceSize; n < p.pieces; n++ {
		if err := b.w.Del(keyPiece(h, n)); err != nil {
			return err
		}
	}
	return writeBlob(b.w, h, p.header, p.payload)
}

// count and uncount keep the counters of the state.
func (b *batch) count(hd header) {
	b.next.Blobs++
	b.next.RawBytes += hd.size
	b.next.BlobBytes += hd.stored
	if hd.loose() {
		b.next.Loose += hd.size
	}
}

func (b *batch) uncount(hd header) {
	b.next.Blobs--
	b.next.RawBytes -= hd.size
	b.next.BlobBytes -= hd.stored
	if hd.loose() {
		b.next.Loose = max(0, b.next.Loose-hd.size)
	}
}

func writeBlob(w *db.Writer, h Hash, hd header, payload []byte) error {
	hd.pieces = 0
	if len(payload) > pieceSize {
		for rest := payload; len(rest) > 0; hd.pieces++ {
			n := min(len(rest), pieceSize)
			if err := w.Set(keyPiece(h, hd.pieces), rest[:n]); err != nil {
				return fmt.Errorf("write content: %w", err)
			}
			rest = rest[n:]
		}
		payload = nil
	}
	if err := w.Set(keyBlob(h), append(hd.append(make([]byte, 0, len(payload)+96)), payload...)); err != nil {
		return fmt.Errorf("write content: %w", err)
	}
	return nil
}

// takeBack removes versions above seq: what a batch wrote whose last
// transaction is missing.
func (s *Store) takeBack(seq uint64) error {
	var gone []Version
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 100, Prefix: []byte{kVersion}})
		defer it.Close()
		for it.Seek(keyVersion(seq + 1)); it.Valid(); it.Next() {
			err := it.Item().Value(func(val []byte) error {
				v, err := decodeVersion(it.Item().Key(), val)
				gone = append(gone, v)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return damaged(err)
	}
	s.current.clear()
	w := s.db.NewWriter()
	defer w.Close()
	// Newest first: the v keys above seq are what a second try finds.
	for i := len(gone) - 1; i >= 0; i-- {
		v := &gone[i]
		if err := s.restoreCurrent(w, v.Path, seq); err != nil {
			return err
		}
		for _, k := range append(indexes(v), keyPath(v.Path, v.Seq), keyVersion(v.Seq)) {
			if err := w.Del(k); err != nil {
				return err
			}
		}
	}
	return w.Commit()
}

// restoreCurrent makes the newest version up to seq the current one.
func (s *Store) restoreCurrent(w *db.Writer, p Path, seq uint64) error {
	v, found, err := newestOf(w.Snapshot(), p, seq)
	if err != nil {
		return err
	}
	if !found {
		return w.Del(keyCurrent(p))
	}
	return w.Set(keyCurrent(p), encodeCurrent(&v, encode(&v)))
}

// newestOf is the newest version of a path up to seq, by the p index.
func newestOf(txn *badger.Txn, p Path, seq uint64) (v Version, found bool, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: keyPathPrefix(p)})
	defer it.Close()
	it.Seek(keyPath(p, seq))
	if !it.Valid() {
		return v, false, nil
	}
	_, at, ok := parsePathKey(it.Item().Key())
	if !ok {
		return v, false, fmt.Errorf("%w: path key", ErrDamaged)
	}
	item, err := txn.Get(keyVersion(at))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, damaged(err)
	}
	err = item.Value(func(val []byte) (err error) { v, err = decodeVersion(keyVersion(at), val); return })
	return v, err == nil, damaged(err)
}
