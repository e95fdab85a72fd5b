package portable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/db"
)

// Import creates a store in dir, which must not exist, from a stream that Export wrote. If Import
// returns nil, the store is complete and checked. Otherwise Import has removed what it created.
// o.Buckets are the KV sets to accept. Import returns ErrNewer, ErrTooLarge, ErrNoSpace, an error
// of r, or an error that describes the fault of the stream.
func Import(ctx context.Context, dir string, r io.Reader, o Options, so store.Options) (c Totals, err error) {
	err = Create(ctx, dir, so, func(s *store.Store) error {
		err := s.FillNew(func(f *store.Filler) (err error) {
			c, err = readStream(ctx, r, s.Options().MaxBlob, &importer{f: f, o: o, ended: map[string]bool{}})
			return err
		})
		c.Files = s.Stats().Files
		return err
	})
	if err != nil {
		err = fmt.Errorf("import: %w", err)
	}
	return c, err
}

// Create creates a store in dir, which must not exist, and calls fill to fill it. If Create returns
// nil, the store is packed, checked and synced. Otherwise Create has removed what it created.
func Create(ctx context.Context, dir string, so store.Options, fill func(*store.Store) error) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s already exists", dir)
	}
	so.Ballast = -1 // Open creates it when the store is in its final place
	s, err := store.Open(dir, so)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		err = errors.Join(err, s.Close())
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := fill(s); err != nil {
		return err
	}
	if err := packed(ctx, s); err != nil {
		return err
	}
	if err := verified(ctx, s); err != nil {
		return err
	}
	return s.Sync()
}

// belongs reports whether a path ("" is the root) is inside a project.
func belongs(p store.Path) bool {
	return !strings.ContainsRune(string(p), 0) && path.Clean("/"+string(p)) == "/"+string(p)
}

// Check reads a whole stream and verifies it, without storing anything.
func Check(ctx context.Context, r io.Reader) (Totals, error) {
	c, err := readStream(ctx, r, streamValue, &importer{})
	if err != nil {
		err = fmt.Errorf("check: %w", err)
	}
	return c, err
}

// readStream verifies the order, the hashes and the sum of the records, and stores them with m.
func readStream(ctx context.Context, r io.Reader, maxBlob int64, m *importer) (Totals, error) {
	c, err := readRecords(r, streamMagic, max(maxBlob, 1<<20), func(kind byte, key, val []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return m.take(kind, key, val)
	})
	c.Program, c.Root, c.Made = m.head.Program, m.head.Root, m.head.Made
	return c, err
}

// readVersion decodes a version. Its number must be above after.
func readVersion(key, val []byte, after uint64) (store.Version, error) {
	v, err := store.DecodeVersion(key, val)
	if err != nil || v.Seq <= after {
		return v, badStream("the version after %d cannot be read", after)
	}
	for _, p := range []store.Path{v.Path, v.From, v.To} {
		if !belongs(p) {
			return v, badStream("version %d has the path %q, which cannot be in a project", v.Seq, string(p))
		}
	}
	return v, nil
}

// importer changes the records of a foreign history so that nothing on this machine acts on them.
type importer struct {
	f     *store.Filler // nil: the records are only verified
	head  streamHead
	last  uint64 // number of the last version in the stream
	o     Options
	ended map[string]bool // IDs of plans that have finished
	after uint64          // versions up to this number are already stored
	short bool            // store a version without its content if the content is missing
}

// take stores one record of a stream.
func (m *importer) take(kind byte, key, val []byte) error {
	switch {
	case kind == streamHeadKind:
		if decode(val, &m.head) != nil {
			return badStream("its head cannot be read")
		}
		if m.f != nil {
			return m.f.Begin(m.head.Gaps)
		}
	case kind == streamContent:
		if m.f != nil {
			return m.f.Content(store.Hash(key), val)
		}
	case kind == store.RecordVersion:
		v, err := readVersion(key, val, m.last)
		if err != nil {
			return err
		}
		m.last = v.Seq
		if m.f != nil {
			return m.version(v)
		}
	case slices.Contains(store.Independent, kind) && len(key) > 0:
		if m.f != nil {
			return m.record(kind, key, val)
		}
	default:
		return fmt.Errorf("%w: the file holds records of kind %q", store.ErrNewer, kind)
	}
	return nil
}

func (m *importer) record(kind byte, key, val []byte) error {
	switch kind {
	case store.RecordKV:
		if !m.o.takes(key) {
			return nil
		}
	case store.RecordSession:
		// The session's process ran at another time, perhaps on another machine.
		var v store.Session
		if err := decode(val, &v); err != nil {
			return badStream("a session cannot be read")
		}
		v.PID, v.PStart = 0, 0
		v.Ended = cmp.Or(v.Ended, v.Last)
		val = encode(&v)
	case store.RecordPlan, store.RecordPlanStep:
		// Drop unfinished plans, because a mount would complete them although nobody on this
		// machine requested them. The head of a plan comes before its parts and steps.
		id := planID(key)
		if kind == store.RecordPlan && id == string(key) {
			var p store.Plan
			if err := decode(val, &p); err != nil {
				return badStream("a plan cannot be read")
			}
			m.ended[id] = p.ID == id && p.Finished != 0
		}
		if !m.ended[id] {
			return nil
		}
	}
	return m.f.Record(kind, key, val)
}

func (m *importer) version(v store.Version) error {
	if v.Seq <= m.after {
		return nil
	}
	err := m.f.Version(v)
	if m.short && errors.Is(err, store.ErrNotFound) {
		v.Blob, v.NoContent = store.Hash{}, "not kept here"
		err = m.f.Version(v)
	}
	if errors.Is(err, store.ErrNotFound) {
		return badStream("the content of version %d is missing", v.Seq)
	}
	return err
}

// verified reads an imported store back completely.
func verified(ctx context.Context, s *store.Store) error {
	c, err := s.Fsck(ctx, false)
	switch {
	case err != nil:
		return err
	case c.Unread != nil:
		return c.Unread
	case !c.OK():
		return badStream("%s", c.Problems[0])
	}
	return nil
}

// packed packs the loose contents. A full disk is no error.
func packed(ctx context.Context, s *store.Store) error {
	s.Contents().Lock()
	defer s.Contents().Unlock()
	var r content.Report
	for before := int64(-1); s.Stats().Loose != before && s.Stats().Loose >= content.PackLeast; {
		before = s.Stats().Loose
		if err := s.Contents().Repack(ctx, false, &r); err != nil && !errors.Is(err, store.ErrNoSpace) {
			return err
		}
	}
	return s.DB().Compact(ctx, db.WasteSome)
}
