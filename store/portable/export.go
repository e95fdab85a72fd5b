package portable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"cachebro/store"
)

// Options describe the stream's origin and select the KV sets to transfer.
type Options struct {
	Program string   // this program's version, written into the stream
	Root    string   // the project's root, written into the stream
	Buckets []string // the KV sets that are meaningful on another machine
}

// takes reports whether a key belongs to one of the KV sets to transfer.
func (o Options) takes(kvKey []byte) bool {
	name, _, ok := bytes.Cut(kvKey, []byte{0})
	return ok && slices.Contains(o.Buckets, string(name))
}

// Export writes the present history to w: contents, versions, sessions, plans, gaps and notices
// (see stream.go). During an export, new versions can be stored, but retention waits. Export needs
// a few megabytes of memory, and sixteen bytes more per content. A returned error wraps that of w.
func Export(ctx context.Context, s *store.Store, w io.Writer, o Options) (Totals, error) {
	c := Totals{Program: o.Program, Root: o.Root, Made: s.Options().Now().UnixNano()}
	err := s.Raw(func(raw store.Raw) error {
		out, err := newStreamWriter(w, streamMagic, streamWindow)
		if err != nil {
			return err
		}
		x := &exporter{ctx: ctx, s: s, raw: raw, w: out, o: o, c: &c}
		head := streamHead{Program: o.Program, Root: o.Root, Made: c.Made, Gaps: raw.Gaps, Seq: raw.Seq}
		err = out.put(streamHeadKind, nil, encode(&head))
		for _, part := range [...]func() error{x.records, x.contents, x.versions} {
			if err == nil {
				err = part()
			}
		}
		if err == nil {
			return out.end(c)
		}
		_ = out.z.Close() // readers detect the missing end
		return fmt.Errorf("export: %w", err)
	})
	return c, err
}

type exporter struct {
	ctx context.Context
	s   *store.Store
	raw store.Raw
	w   *streamWriter
	o   Options
	c   *Totals
}

// records writes the records that are not versions. It leaves out open plans, because a client on
// this machine is carrying them out.
func (x *exporter) records() error {
	open, err := x.s.Journal.Open()
	if err != nil {
		return err
	}
	for _, kind := range store.Independent {
		err := x.raw.Records(kind, func(key, val []byte) error {
			switch kind {
			case store.RecordKV:
				if !x.o.takes(key) {
					return nil
				}
			case store.RecordPlan, store.RecordPlanStep:
				id := planID(key)
				if slices.ContainsFunc(open, func(p store.Plan) bool { return p.ID == id }) {
					return nil
				}
			}
			x.c.Records++
			return x.put(kind, key, val)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) put(kind byte, key, val []byte) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	return x.w.put(kind, key, val)
}

// planID returns the ID of the plan to which a record belongs.
func planID(key []byte) string {
	id, _, _ := bytes.Cut(key, []byte{0})
	return string(id)
}

// contents writes each content once, sorted by path and age, so that similar contents are close
// together.
func (x *exporter) contents() error {
	done := map[[16]byte]struct{}{}
	var due []store.Hash
	write := func() error {
		for _, h := range due {
			b, err := x.s.Content(h)
			if errors.Is(err, store.ErrPruned) || errors.Is(err, store.ErrDamaged) {
				return fmt.Errorf("%w (cachebro store fsck)", err)
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
		return x.ctx.Err()
	}
	err := x.raw.ByPath(func(v store.Version) error {
		k := [16]byte(v.Blob[:16])
		if _, ok := done[k]; ok || v.Blob == (store.Hash{}) {
			return nil
		}
		done[k] = struct{}{}
		due = append(due, v.Blob)
		if len(due) < 16 {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return err
}

// versions writes the log.
func (x *exporter) versions() error {
	return x.raw.Records(store.RecordVersion, func(key, val []byte) error {
		x.c.Versions++
		return x.put(store.RecordVersion, key, val)
	})
}

// errFound ends a walk early.
var errFound = errors.New("found")

// Empty reports whether no version, session, plan or setting of o.Buckets was ever stored.
func Empty(s *store.Store, o Options) (bool, error) {
	err := s.Raw(func(raw store.Raw) error {
		if raw.Seq > 0 {
			return errFound
		}
		for _, kind := range store.Independent {
			err := raw.Records(kind, func(key, _ []byte) error {
				if kind == store.RecordKV && !o.takes(key) {
					return nil
				}
				return errFound
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return false, nil
	}
	return err == nil, err
}
