package content

import (
	"bytes"
	"errors"
	"fmt"

	"cachebro/store/db"
)

// Counts holds totals of the stored contents.
type Counts struct {
	Blobs  uint64
	Stored int64 // bytes as stored
	Raw    int64 // bytes of the contents themselves
	Loose  int64 // bytes of contents that are not yet in a frame
}

// Batch stores contents together with the records that refer to them, through one writer. The
// writer's lock is held while the batch exists.
type Batch struct {
	// Counts are the store's counts including the changes of the batch.
	Counts Counts

	s     *Store
	w     *db.Writer
	blobs map[Hash]*pending
	order []Hash
}

// pending is a blob of this batch. Blobs are written when the batch is complete, because a later
// rename may provide a better base.
type pending struct {
	header
	payload []byte
	content []byte  // nil for a tail
	was     *header // the blob's header in the store, if it was there already
	// header.pieces is the stored number of pieces; writeBlob counts them anew.
}

// Batch begins a batch that writes through w. have holds the counts before the batch.
func (s *Store) Batch(w *db.Writer, have Counts) *Batch {
	return &Batch{Counts: have, s: s, w: w, blobs: map[Hash]*pending{}}
}

// Flush passes all pending blobs to the writer, which still has to commit them.
func (b *Batch) Flush() error {
	for _, h := range b.order {
		if err := b.writeBlob(h, b.blobs[h]); err != nil {
			return err
		}
	}
	return nil
}

// Committed is called after the writer's last commit. It fills the cache.
func (b *Batch) Committed() {
	for h, p := range b.blobs {
		if p.content != nil {
			b.s.contents.Put(h, p.content)
		}
	}
}

// Refer records that the batch refers to a content. A running sweep then does not delete it.
func (b *Batch) Refer(h Hash) {
	if b.s.fresh != nil {
		b.s.fresh[h] = true
	}
}

// Put stores a content. near, if not nil, is called if the content is new, and returns the hash of
// a probably similar one. Put returns ErrTooLarge if the content is larger than MaxBlob.
func (b *Batch) Put(content []byte, near func() Hash) (*Tail, error) {
	if int64(len(content)) > b.s.opt.MaxBlob {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(content))
	}
	h, sum := hashFrom(nil, content)
	t := newTail(h, int64(len(content)), sum)
	if b.Has(h) { // the store or this batch already has the content
		return t, nil
	}
	base := Hash{}
	if near != nil {
		base = near()
	}
	return t, b.putNew(h, content, base)
}

// Append stores a new content of a file, which consists of the content of t up to the offset from,
// followed by more. It returns ErrNoBase if the store lacks those bytes, and ErrTooLarge if the
// content is larger than MaxBlob.
func (b *Batch) Append(t *Tail, from int64, more []byte) (*Tail, error) {
	if from > t.size {
		return nil, ErrNoBase
	}
	if from == t.size && len(more) == 0 {
		return t, nil
	}
	if n := from + int64(len(more)); n > b.s.opt.MaxBlob {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	if from == t.size && t.sum != nil {
		h, sum := hashFrom(t.sum, more)
		next, on, bytes := t.appended(h, more, sum)
		base, err := b.header(on.hash)
		if err == nil && base.links < maxLinks && base.size == on.size {
			if b.Has(h) {
				return next, nil
			}
			hd, payload, err := b.s.codecs.tail(bytes, on.hash, base, on.size)
			if err != nil {
				return nil, err
			}
			b.pend(h, &pending{header: hd, payload: payload})
			return next, nil
		}
	}
	// This is not a plain append, or the chain is full, so store the whole content.
	base, err := b.content(t.hash)
	if err != nil || int64(len(base)) < from {
		return nil, ErrNoBase
	}
	full := append(base[:from:from], more...)
	h, sum := hashFrom(nil, full)
	return newTail(h, int64(len(full)), sum), b.PutHashed(h, full, t.hash)
}

// Tail returns the tail of a stored content, to which bytes can be appended.
func (b *Batch) Tail(h Hash) (*Tail, error) {
	hd, err := b.header(h)
	if err != nil {
		return nil, err
	}
	return newTail(h, hd.size, nil), nil
}

// PutHashed stores a content of any size whose hash is known. near is the hash of a probably
// similar content.
func (b *Batch) PutHashed(h Hash, content []byte, near Hash) error {
	if b.Has(h) {
		return nil
	}
	return b.putNew(h, content, near)
}

// putNew stores a content that the store lacks.
func (b *Batch) putNew(h Hash, content []byte, near Hash) error {
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

// offered looks for a new content among the offers and compares the bytes.
func (b *Batch) offered(h Hash, content []byte) (header, bool) {
	o := b.s.offers.Load()
	for _, x := range o.find(tagOf(h)) {
		if int64(x.size) != int64(len(content)) {
			continue
		}
		raw, err := b.s.frame(b.w.Txn, o.frames[x.frame].id)
		end := int64(x.at) + int64(x.size)
		if err == nil && end <= int64(len(raw)) && bytes.Equal(raw[x.at:end], content) {
			return o.header(x), true
		}
	}
	return header{}, false
}

// encode returns the smaller of the plain and the delta encoding.
func (b *Batch) encode(h Hash, content []byte, near Hash) (header, []byte, error) {
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

func (b *Batch) pend(h Hash, p *pending) {
	if _, ok := b.blobs[h]; !ok {
		b.order = append(b.order, h)
	}
	b.blobs[h] = p
}

// Has reports whether the store or this batch has a content.
func (b *Batch) Has(h Hash) bool {
	if b.blobs[h] != nil {
		return true
	}
	_, err := b.w.Txn.Get(keyBlob(h))
	return err == nil
}

func (b *Batch) header(h Hash) (header, error) {
	if p := b.blobs[h]; p != nil {
		return p.header, nil
	}
	return readHeader(b.w.Txn, h)
}

func (b *Batch) content(h Hash) ([]byte, error) {
	p := b.blobs[h]
	if p == nil {
		out, err := b.s.contentIn(b.w.Txn, h)
		if err == nil {
			b.s.contents.Put(h, out)
		}
		return out, err
	}
	if p.content == nil {
		// The content is a tail of this batch. Its base may belong to this batch as well.
		var base []byte
		if p.based() {
			var err error
			base, err = b.content(p.base)
			if err != nil {
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

// Rebase turns a content that is stored whole into a delta against near, if the delta is smaller
// and creates no cycle.
func (b *Batch) Rebase(h, near Hash) error {
	hd, err := b.header(h)
	if err != nil || h == near {
		return nil // fsck reports missing contents
	}
	small := hd.size < 256 || hd.stored != 0 && hd.stored < 256
	if small || hd.based() || hd.enc == encFrame {
		return nil
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

// writeBlob writes the keys of a blob.
func (b *Batch) writeBlob(h Hash, p *pending) error {
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

func (b *Batch) count(hd header) {
	b.Counts.Blobs++
	b.Counts.Raw += hd.size
	b.Counts.Stored += hd.stored
	if hd.loose() {
		b.Counts.Loose += hd.size
	}
}

func (b *Batch) uncount(hd header) {
	b.Counts.Blobs--
	b.Counts.Raw -= hd.size
	b.Counts.Stored -= hd.stored
	if hd.loose() {
		b.Counts.Loose = max(0, b.Counts.Loose-hd.size)
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

// Drop deletes an unreferenced content and returns its stored size. It returns ErrPruned if the
// content is not stored.
func (b *Batch) Drop(h Hash) (int64, error) {
	hd, err := b.header(h)
	if errors.Is(err, ErrPruned) {
		return 0, err
	}
	for n := range hd.pieces {
		if err := b.w.Del(keyPiece(h, n)); err != nil {
			return 0, err
		}
	}
	if err := b.w.Del(keyBlob(h)); err != nil {
		return 0, err
	}
	b.s.contents.Drop(h)
	b.uncount(hd)
	return hd.stored, nil
}
