package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// Portable says what travels with a history besides the log.
type Portable struct {
	Program string   // this program's version, noted in the stream
	Root    string   // the project's root, noted in the stream
	Buckets []string // the KV sets that mean something elsewhere
}

func (p Portable) takes(kvKey []byte) bool {
	name, _, ok := bytes.Cut(kvKey, []byte{0})
	return ok && slices.Contains(p.Buckets, string(name))
}

// Export writes the history to w: contents, versions, sessions, plans, gaps and
// notices, as they are at this moment (see stream.go). Others go on storing
// meanwhile; retention waits. It holds some megabytes and sixteen bytes for each
// content. Errors of w come back as they are.
func (s *Store) Export(ctx context.Context, w io.Writer, p Portable) (Carried, error) {
	// Nothing is dropped or moved while it is read, so the log up to a
	// sequence number is a snapshot.
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	st := s.state.Load()
	c := Carried{Program: p.Program, Root: p.Root, Made: s.opt.Now().UnixNano()}
	out, err := newStreamWriter(w)
	if err != nil {
		return c, err
	}
	x := &exporter{s: s, w: out, p: p, c: &c, seq: st.Seq}
	head := streamHead{Program: p.Program, Root: p.Root, Made: c.Made, Gaps: st.GapCount, Oldest: st.Oldest, Seq: st.Seq}
	err = out.put(streamHeadKind, nil, encode(&head))
	for _, part := range [...]func(context.Context) error{x.records, x.contents, x.versions} {
		if err == nil {
			err = part(ctx)
		}
	}
	if err == nil {
		return c, out.end(c)
	}
	_ = out.z.Close() // whoever reads on finds that the end is missing
	return c, fmt.Errorf("export: %w", err)
}

type exporter struct {
	s   *Store
	w   *streamWriter
	p   Portable
	c   *Carried
	seq uint64 // newest version that is exported
}

// records writes what is no version. An open plan stays: it belongs to a client
// that is at work here.
func (x *exporter) records(ctx context.Context) error {
	open, err := x.s.OpenPlans()
	if err != nil {
		return err
	}
	isOpen := func(key []byte) bool {
		id, _, _ := bytes.Cut(key, []byte{0})
		return slices.ContainsFunc(open, func(p Plan) bool { return p.ID == string(id) })
	}
	return x.s.view(func(txn *badger.Txn) error {
		for _, kind := range carriedKinds {
			it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kind}})
			err := x.each(ctx, it, func(key, val []byte) error {
				if kind == kKV && !x.p.takes(key) || (kind == kPlan || kind == kPlanStep) && isOpen(key) {
					return nil
				}
				x.c.Records++
				return x.w.put(kind, key, val)
			})
			it.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// each passes keys, without their prefix, and values.
func (x *exporter) each(ctx context.Context, it *badger.Iterator, fn func(key, val []byte) error) error {
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := it.Item().Key()[1:]
		if err := it.Item().Value(func(val []byte) error { return fn(key, val) }); err != nil {
			return err
		}
	}
	return nil
}

// contents writes each content once, in the order of paths and ages, so that
// what resembles each other is near.
func (x *exporter) contents(ctx context.Context) error {
	done := map[[16]byte]struct{}{}
	var due []Hash
	write := func() error {
		for _, h := range due {
			b, err := x.s.Content(h)
			if errors.Is(err, ErrPruned) || errors.Is(err, ErrDamaged) {
				return fmt.Errorf("%w (cachebro fsck)", err)
			}
			if err != nil {
				return err
			}
			x.c.Contents++
			x.c.Bytes += int64(len(b))
			if err := x.w.put(streamContent, h[:], b); err != nil {
				return err
			}
		}
		due = due[:0]
		return ctx.Err()
	}
	err := x.s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kPath}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			_, seq, ok := parsePathKey(it.Item().Key())
			if !ok || seq > x.seq {
				continue
			}
			v, err := x.s.versionIn(txn, seq)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if v.Blob == (Hash{}) {
				continue
			}
			k := [16]byte(v.Blob[:16])
			if _, ok := done[k]; ok {
				continue
			}
			done[k] = struct{}{}
			if due = append(due, v.Blob); len(due) == 16 {
				if err := write(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = write()
	}
	return err
}

// versions writes the log.
func (x *exporter) versions(ctx context.Context) error {
	return x.s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kVersion}})
		defer it.Close()
		return x.each(ctx, it, func(key, val []byte) error {
			if len(key) != 8 || binary.BigEndian.Uint64(key) > x.seq {
				return nil
			}
			x.c.Versions++
			return x.w.put(kVersion, key, val)
		})
	})
}
