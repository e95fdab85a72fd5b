package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"cachebro/store/content"
	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// Import makes a store in dir, which must not exist, of what Export wrote. The
// store is complete and checked when Import returns nil; otherwise dir is gone
// again. p.Buckets are the KV sets to accept. Errors: ErrNewer, ErrTooLarge,
// ErrNoSpace, those of r, and one that says what is wrong with the stream.
func Import(ctx context.Context, dir string, r io.Reader, p Portable, o Options) (c Carried, err error) {
	if _, err := os.Lstat(dir); err == nil {
		return c, fmt.Errorf("import: %s is there already", dir)
	}
	o.Ballast = -1 // Open makes one when the store is where it belongs
	s, err := Open(dir, o)
	if err != nil {
		return c, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		if err = errors.Join(err, s.Close()); err != nil {
			err = errors.Join(fmt.Errorf("import: %w", err), os.RemoveAll(dir))
		}
	}()
	if c, err = s.fill(ctx, r, p); err != nil {
		return c, err
	}
	if err = s.dropOpenPlans(); err != nil {
		return c, err
	}
	if err = s.settle(ctx); err != nil {
		return c, err
	}
	c.Files = s.Stats().Files
	return c, s.Sync()
}

// fill stores what a stream holds.
func (s *Store) fill(ctx context.Context, r io.Reader, p Portable) (Carried, error) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	m := &importer{s: s, p: p}
	c, err := readStream(ctx, r, s.opt.MaxBlob, m)
	if m.b != nil {
		m.b.w.Close() // what was not committed goes with the directory
	}
	return c, err
}

// belongs reports whether a path, "" being the root, leads to something in a
// project, and not elsewhere.
func belongs(p Path) bool {
	return p == "" || cleaned(p) == p && path.Clean("/"+string(p)) == "/"+string(p)
}

// dropOpenPlans removes plans that have not ended, and parts without a head. A mount
// finishes those of a client that was killed, unasked; nobody here has asked for
// these.
func (s *Store) dropOpenPlans() error {
	heads, err := s.Plans()
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	for _, p := range heads {
		ended[p.ID] = p.Finished != 0
	}
	var drop [][]byte
	err = s.view(func(txn *badger.Txn) error {
		for _, kind := range []byte{kPlan, kPlanStep} {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
			for it.Rewind(); it.Valid(); it.Next() {
				key := it.Item().KeyCopy(nil)
				if id, _, _ := bytes.Cut(key[1:], []byte{0}); !ended[string(id)] {
					drop = append(drop, key)
				}
			}
			it.Close()
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	b := s.newBatch()
	defer b.discard()
	for _, key := range drop {
		if err := b.w.Del(key); err != nil {
			return err
		}
	}
	return b.commit()
}

// CheckStream reads a whole stream and verifies it, without storing anything.
func CheckStream(ctx context.Context, r io.Reader) (Carried, error) {
	c, err := readStream(ctx, r, streamValue, noSink{})
	if err != nil {
		err = fmt.Errorf("check: %w", err)
	}
	return c, err
}

// sink takes what a stream holds. Slices are the caller's again afterwards.
type sink interface {
	head(streamHead) error
	record(kind byte, key, val []byte) error
	content(h Hash, b []byte) error
	version(v Version) error
	end() error
}

// readStream passes the records on and verifies order, hashes and the sum.
func readStream(ctx context.Context, r io.Reader, maxBlob int64, to sink) (c Carried, err error) {
	in, err := newStreamReader(r, max(maxBlob, 1<<20))
	if err != nil {
		return c, err
	}
	defer in.close()
	last := uint64(0)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		kind, key, val, err := in.next()
		if err != nil {
			return c, err
		}
		if (kind == streamHeadKind) != (n == 0) {
			return c, badStream("its head is not where it belongs")
		}
		switch {
		case kind == streamHeadKind:
			var h streamHead
			if err = decode(val, &h); err == nil {
				c.Program, c.Root, c.Made = h.Program, h.Root, h.Made
				err = to.head(h)
			}
		case kind == streamContent:
			if len(key) != len(Hash{}) || sha256.Sum256(val) != Hash(key) {
				return c, badStream("content %d does not have its hash", c.Contents+1)
			}
			c.Contents++
			c.Bytes += int64(len(val))
			err = to.content(Hash(key), val)
		case kind == kVersion:
			v, e := decodeVersion(append([]byte{kVersion}, key...), val)
			if e != nil || v.Seq <= last {
				return c, badStream("version %d cannot be read", c.Versions+1)
			}
			for _, p := range []Path{v.Path, v.From, v.To} {
				if !belongs(p) {
					return c, badStream("version %d is of %q, which is no path of a project", v.Seq, string(p))
				}
			}
			last = v.Seq
			c.Versions++
			err = to.version(v)
		case slices.Contains(carriedKinds, kind) && len(key) > 0:
			c.Records++
			err = to.record(kind, key, val)
		case kind == streamEndKind:
			if err := in.end(val, c); err != nil {
				return c, err
			}
			return c, to.end()
		default:
			return c, fmt.Errorf("%w: the file holds records of kind %q", ErrNewer, kind)
		}
		if err != nil {
			return c, err
		}
	}
}

type noSink struct{}

func (noSink) head(streamHead) error             { return nil }
func (noSink) record(byte, []byte, []byte) error { return nil }
func (noSink) content(Hash, []byte) error        { return nil }
func (noSink) version(Version) error             { return nil }
func (noSink) end() error                        { return nil }

const (
	// importBytes and importCount bound what one batch of an import holds.
	importBytes = 4 << 20
	importCount = 500
)

// importer fills an empty store that nobody else uses.
type importer struct {
	s     *Store
	p     Portable
	b     *batch // begun when something came, nil else
	held  int
	bytes int64
	near  Hash // the content before, which the next one probably resembles
}

// batch is the one that is being filled; a full one is committed first.
func (m *importer) batch(n int64) (*batch, error) {
	if m.b != nil && (m.held >= importCount || m.bytes+n > importBytes) {
		if err := m.end(); err != nil {
			return nil, err
		}
	}
	if m.b == nil {
		if err := m.s.room.Check(importBytes); err != nil {
			return nil, err
		}
		m.b = m.s.newBatch()
	}
	m.held++
	m.bytes += n
	return m.b, nil
}

func (m *importer) end() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b, m.held, m.bytes = nil, 0, 0
	defer b.discard()
	return b.commit()
}

func (m *importer) head(h streamHead) error {
	b, err := m.batch(0)
	if err == nil {
		b.next.GapCount, b.next.Oldest = h.Gaps, h.Oldest
	}
	return err
}

func (m *importer) record(kind byte, key, val []byte) error {
	switch kind {
	case kKV:
		if !m.p.takes(key) {
			return nil
		}
	case kSession:
		// Its process is of another time and perhaps another machine.
		var v Session
		if err := decode(val, &v); err != nil {
			return badStream("a session cannot be read")
		}
		if v.PID, v.PStart = 0, 0; v.Ended == 0 {
			v.Ended = v.Last
		}
		val = encode(&v)
	}
	b, err := m.batch(int64(len(key) + len(val)))
	if err != nil {
		return err
	}
	return b.w.Set(append([]byte{kind}, key...), bytes.Clone(val))
}

func (m *importer) content(h Hash, content []byte) error {
	b, err := m.batch(int64(len(content)))
	if err != nil {
		return err
	}
	err = b.contents.PutHashed(h, bytes.Clone(content), m.near)
	m.near = h
	return err
}

func (m *importer) version(v Version) error {
	v.Foreign = true
	b, err := m.batch(512)
	if err != nil {
		return err
	}
	was, wasLive, err := b.live(v.Path)
	if err != nil {
		return err
	}
	if v.Blob != (Hash{}) && !b.contents.Has(v.Blob) {
		return badStream("the content of version %d is missing", v.Seq)
	}
	b.next.Seq = v.Seq
	return b.place(v, was, wasLive)
}

// settle packs what an import stored and reads all of it back.
func (s *Store) settle(ctx context.Context) error {
	if err := s.pack(ctx); err != nil {
		return err
	}
	c, err := s.Fsck(ctx, false, nil)
	if err != nil {
		return err
	}
	if c.Unread != nil {
		return c.Unread
	}
	if !c.OK() {
		return badStream("%s", c.Problems[0])
	}
	return nil
}

// pack packs what is loose; a full disk is no error.
func (s *Store) pack(ctx context.Context) error {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	var r content.Report
	for before := int64(-1); s.Stats().Loose != before && s.Stats().Loose >= content.PackLeast; {
		before = s.Stats().Loose
		if err := s.contents.Repack(ctx, false, &r); err != nil && !errors.Is(err, ErrNoSpace) {
			return err
		}
	}
	return s.db.Compact(ctx, db.WasteSome)
}
