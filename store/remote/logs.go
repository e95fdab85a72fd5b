package remote

import (
	"context"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/portable"
)

// Log is a segment with the records of its log.
type Log struct {
	Segment Segment
	portable.Records
}

// Logs calls fn with the segments that a machine has sent after the known ones, without contents.
// It is for programs that store the histories of many machines. seq is the newest known version; fn
// receives only later ones. As in Follow, a segment with a wrong hash is an error.
func (b *Bucket) Logs(ctx context.Context, h Head, known Known, seq uint64, fn func(Log) error) error {
	due, err := b.After(ctx, h, known.N, known.Log)
	if err != nil {
		return err
	}
	if known.N == 0 && h.Base != nil {
		seq = h.Base.Seq
	}
	previous := known.Log
	for _, s := range due {
		p := piece{machine: h.Machine.ID, Segment: s, former: h.formerly(s.N)}
		log, err := b.linked(ctx, p, previous)
		if err != nil {
			return err
		}
		r, err := portable.Read(log)
		if err != nil {
			return fmt.Errorf("segment %d of %s: %w", s.N, p.machine, err)
		}
		r.Versions = slices.DeleteFunc(r.Versions, func(v store.Version) bool { return v.Seq <= seq })
		if n := len(r.Versions); n > 0 {
			seq = r.Versions[n-1].Seq
		}
		if err := fn(Log{s, r}); err != nil {
			return err
		}
		previous = s.Log
	}
	return nil
}

// Contents calls fn with the contents of a machine's segment. A content above max bytes is an
// error.
func (b *Bucket) Contents(ctx context.Context, machine string, s Segment, max int64, fn func(store.Hash, []byte) error) error {
	if s.Contents == "" {
		return nil
	}
	if !validID(machine) || !s.valid() {
		return fmt.Errorf("%w: no contents are called %.40q %.80q", ErrForged, machine, s.Contents)
	}
	body, err := b.getHashed(ctx, contentsKey(machine, s), s.Contents, s.ContentsSize)
	if err == nil {
		body, err = b.open(body)
	}
	if err != nil {
		return err
	}
	return portable.ReadContents(body, max, fn)
}
