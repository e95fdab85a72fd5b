package content

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"cachebro/store/db"
	"cachebro/store/leaf/loop"

	badger "github.com/dgraph-io/badger/v4"
)

const (
	// repackRaw and repackCount limit the work of one repack. The next repack handles the remaining
	// contents.
	repackRaw   = 192 << 20
	repackCount = 100_000
	// syncFrames is the number of new frames that are written into one pack file and synced
	// together. Only removing a whole file frees space, so files must not be large.
	syncFrames = 8
	// PackLeast is the number of loose bytes that makes a repack worthwhile.
	PackLeast = 1 << 20
)

// parcel is a content to be put into a frame.
type parcel struct {
	hash Hash
	size int64
	ext  string
	path string
	seq  int    // number of the content's first version, counted from 1
	val  []byte // value of the content's key; nil: not read
}

// inventory is the result of a walk through all blobs.
type inventory struct {
	loose  int64 // bytes of contents that could be in a frame but are not
	frames map[uint64]*frameStock
	last   uint64 // number of the newest frame
	pack   uint64 // number of the newest repack
}

type frameStock struct {
	head  frameHead
	live  int64  // bytes of needed contents in the frame
	parts int    // number of needed contents
	links uint64 // hard links of its pack file: above 1 if siblings share it
}

// shared reports whether siblings share the frame's pack file.
func (f *frameStock) shared() bool { return f.links > 1 }

func (s *Store) takeInventory(ctx context.Context) (*inventory, error) {
	st := &inventory{frames: map[uint64]*frameStock{}, last: s.lastFrame}
	links := s.packLinks()
	err := s.eachFrame(func(id uint64, h frameHead) error {
		st.frames[id] = &frameStock{head: h, links: links[h.file]}
		st.last, st.pack = max(st.last, id), max(st.pack, h.pack)
		return ctx.Err()
	})
	s.lastFrame = st.last
	if err != nil {
		return nil, err
	}
	err = s.eachBlob(func(_ Hash, hd header) error {
		if hd.loose() {
			st.loose += hd.size
		}
		if f := st.frames[hd.frame]; f != nil && hd.enc == encFrame {
			f.live += hd.size
			f.parts++
		}
		return ctx.Err()
	})
	return st, err
}

// Repack puts the loose contents into frames, with similar contents next to each other.
//
// It also puts contents of earlier repacks into the new frames, so that the versions of a file do
// not get scattered over many frames. It goes back from the latest repack, and stops at one with
// more bytes than it has collected so far. So after n repacks, every content was rewritten about
// log2(n) times.
//
// Contents that siblings have in pack files are adopted. Frames shared with siblings are not
// changed. If gentle is set, Repack pauses half of the time. The caller holds the lock of s.
func (s *Store) Repack(ctx context.Context, gentle bool, r *Report) error {
	st, err := s.takeInventory(ctx)
	if err == nil && st.loose > 0 && s.adoptUseful(ctx, r) {
		st, err = s.takeInventory(ctx)
	}
	if err != nil {
		return fmt.Errorf("repack: %w", err)
	}
	packs := map[uint64]int64{}
	for _, f := range st.frames {
		if !f.shared() {
			packs[f.head.pack] += f.live
		}
	}
	open, sum := map[uint64]bool{}, st.loose
	for n := st.pack; n > 0; n-- {
		live, ok := packs[n]
		if !ok {
			continue
		}
		if live > sum && live >= frameSize {
			break
		}
		open[n] = true
		sum += live
	}
	if st.loose > 0 {
		err = s.pack(ctx, st, gentle, r, func(hd header) bool {
			f := st.frames[hd.frame]
			inOpenPack := f != nil && open[f.head.pack] && !f.shared()
			return hd.loose() || hd.enc == encFrame && inOpenPack
		})
	}
	if err == nil {
		err = s.dropFrames(ctx)
	}
	if err != nil {
		return fmt.Errorf("repack: %w", err)
	}
	return nil
}

// pack moves the selected contents into new frames.
func (s *Store) pack(ctx context.Context, st *inventory, gentle bool, r *Report, selected func(header) bool) error {
	all, err := s.parcels(ctx, selected)
	if err != nil {
		return err
	}
	enc, err := newFramer()
	if err != nil {
		return err
	}
	defer enc.close()
	id, pack := st.last, st.pack+1
	var file *packWriter
	defer func() {
		if file != nil {
			file.abandon()
		}
	}()
	var written []*written
	for from := 0; from < len(all) && err == nil; {
		began := time.Now()
		to, raw := from, int64(0)
		for to < len(all) && to-from < frameCount && (to == from || raw+all[to].size <= frameSize) {
			raw += all[to].size
			to++
		}
		id++
		s.lastFrame = id
		if file == nil {
			file, err = s.newPack()
			if err != nil {
				break
			}
		}
		w, e := s.writeFrame(enc, file, id, all[from:to])
		from, err = to, e
		if err == nil && w != nil {
			written = append(written, w)
		}
		if err == nil && len(written) > 0 && (len(written) == syncFrames || from == len(all)) {
			f := file
			file = nil // seal or abandon owns the file now
			err = s.seal(f, pack, written)
			if err == nil {
				err = s.db.Sync() // make the new frames durable before deleting the old ones
			}
			if err == nil {
				err = s.referToFrames(written, r)
			}
			written = written[:0]
		}
		err = cmp.Or(err, ctx.Err())
		if err == nil && gentle {
			loop.Pause(ctx, time.Since(began))
		}
	}
	return err
}

// parcels collects the contents for the frames and sorts them by kind of file, path and age.
func (s *Store) parcels(ctx context.Context, selected func(header) bool) ([]parcel, error) {
	var all []parcel
	raw := int64(0)
	var kept values
	err := s.db.View(func(txn *badger.Txn) error {
		return eachValue(txn, func(h Hash, hd header, val []byte) error {
			if raw < repackRaw && len(all) < repackCount && selected(hd) {
				all = append(all, parcel{hash: h, size: hd.size, val: kept.keep(val)})
				raw += hd.size
			}
			return ctx.Err()
		})
	})
	if err != nil {
		return nil, err
	}
	at := make(map[uint64]int, len(all))
	for i := range all {
		at[Short(all[i].hash)] = i
	}
	n := 0
	err = s.log.Uses(func(h Hash, name string) bool {
		n++
		if i, ok := at[Short(h)]; ok && all[i].seq == 0 && all[i].hash == h {
			all[i].ext, all[i].path = path.Ext(name), name
			all[i].seq = n
		}
		return ctx.Err() == nil
	})
	slices.SortFunc(all, func(a, b parcel) int {
		return cmp.Or(cmp.Compare(a.ext, b.ext), cmp.Compare(a.path, b.path), cmp.Compare(a.seq, b.seq))
	})
	return all, cmp.Or(err, ctx.Err())
}

// written is a frame that was written but is not referenced yet.
type written struct {
	id     uint64
	parts  []parcel
	at     []int64
	raw    int64
	stored int64
	begins int64 // offset in its pack file
}

// writeFrame adds contents as a frame to a pack file. It returns nil if none of the contents can be
// read.
func (s *Store) writeFrame(enc *framer, file *packWriter, id uint64, parts []parcel) (*written, error) {
	w := &written{id: id}
	var raw []byte
	for i, p := range parts {
		var b []byte
		err := s.db.View(func(txn *badger.Txn) (err error) { b, err = s.contentOf(txn, p.hash, p.val); return })
		parts[i].val = nil
		if errors.Is(err, ErrPruned) || errors.Is(err, db.ErrDamaged) {
			continue // fsck reports it
		}
		if err != nil {
			return nil, err
		}
		s.contents.Put(p.hash, b) // the next content may be a delta against it
		w.parts, w.at = append(w.parts, p), append(w.at, int64(len(raw)))
		raw = append(raw, b...)
	}
	if len(w.parts) == 0 {
		return nil, nil
	}
	w.raw = int64(len(raw))
	z := enc.compress(raw)
	// Read the frame back before deleting the data that it replaces.
	back, err := s.codecs.expand(z, nil, w.raw)
	if err != nil || !bytes.Equal(back, raw) {
		return nil, fmt.Errorf("%w: frame %d cannot be read: %v", db.ErrDamaged, id, err)
	}
	w.stored = int64(len(z))
	if err := s.room.Check(w.stored); err != nil {
		return nil, err
	}
	w.begins, err = file.add(z, w.raw, w.parts)
	return w, err
}

// seal completes a pack file and records its frames.
func (s *Store) seal(file *packWriter, pack uint64, ws []*written) error {
	name, err := file.seal()
	if err != nil {
		return err
	}
	return s.db.Update(func(txn *badger.Txn) error {
		for _, w := range ws {
			h := frameHead{pack: pack, raw: w.raw, file: name, at: w.begins, n: w.stored}
			if err := txn.Set(keyFrame(w.id), h.encode()); err != nil {
				return err
			}
		}
		return nil
	})
}

// placed is a content in a written frame.
type placed struct {
	*written
	i int // index in parts
}

func (p placed) hash() Hash { return p.parts[p.i].hash }

// referToFrames makes the contents refer to their new frames. It works in key order, because
// neighbouring keys share a block of the database.
func (s *Store) referToFrames(ws []*written, r *Report) error {
	var all []placed
	for _, w := range ws {
		for i := range w.parts {
			all = append(all, placed{w, i})
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		x, y := a.hash(), b.hash()
		return bytes.Compare(x[:], y[:])
	})
	for part := range slices.Chunk(all, 4*chunk) {
		if err := s.referPart(part, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) referPart(ps []placed, r *Report) error {
	return s.log.Write(func(b *Batch) error {
		for _, w := range ps {
			p, at := &w.parts[w.i], w.at[w.i]
			hd, err := b.header(p.hash)
			if errors.Is(err, ErrPruned) {
				continue
			}
			if err != nil {
				return err
			}
			b.pend(p.hash, &pending{was: &hd, header: header{
				enc: encFrame, size: p.size, frame: w.id, at: at, pieces: hd.pieces,
				stored: w.stored*(at+p.size)/max(w.raw, 1) - w.stored*at/max(w.raw, 1),
			}})
			if hd.enc != encFrame {
				r.Packed++
				r.Loosened += hd.stored
			}
		}
		return nil
	})
}
