package portable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"cachebro/store"
)

// This file divides a growing history into parts, for callers that send it piece by piece. A part
// is two streams of records as in stream.go, each after its own magic line:
//
//	"cachebro-contents 1\n"  b … e
//	"cachebro-log 1\n"       h, records and versions, e
//
// The contents of a log's versions are in its own part or an earlier one.
const (
	contentsMagic = "cachebro-contents 1\n"
	logMagic      = "cachebro-log 1\n"

	// Limits of a part. A single larger content or plan may exceed them.
	partBytes    = 4 << 20
	partVersions = 2000
	partRecords  = 4000
)

// Position is how far a history has been sent.
type Position struct {
	Seq    uint64 `cbor:"1,keyasint,omitempty"` // the newest version
	Moment uint64 `cbor:"2,keyasint,omitempty"` // database position up to which records other than versions were sent
	// If Until is not 0, the records up to Until are being sent. Records of kinds before Kind were
	// sent, and those of Kind with keys before Key.
	Until uint64 `cbor:"3,keyasint,omitempty"`
	Kind  int    `cbor:"4,keyasint,omitempty"` // index in store.Independent
	Key   []byte `cbor:"5,keyasint,omitempty"`
}

// Part holds what was added to a history after a position.
type Part struct {
	To       Position
	More     bool         // there is another part
	Versions int          // number of versions in the part
	Sent     []store.Hash // hashes of the contents in the part
	Contents []byte       // stream of the contents; nil: none
	head     streamHead
	log      []partRecord
	size     int
}

type partRecord struct {
	kind     byte
	key, val []byte
}

// PartOptions select what a part contains.
type PartOptions struct {
	Options
	// Leave returns true for a version that is not sent. Its content is not sent either.
	Leave func(store.Version) bool
	// Has reports whether an earlier part had a content.
	Has func(store.Hash) (bool, error)
}

// Empty reports whether the part holds nothing.
func (p *Part) Empty() bool { return len(p.log) == 0 && p.Contents == nil }

// NextPart returns the part after a position. Retention waits until it returns.
func NextPart(ctx context.Context, s *store.Store, from Position, o PartOptions) (*Part, error) {
	p := &Part{To: from}
	p.To.Key = slices.Clone(from.Key)
	err := s.Raw(func(raw store.Raw) error {
		p.head = streamHead{Program: o.Program, Root: o.Root, Made: s.Options().Now().UnixNano(), Gaps: raw.Gaps}
		if err := p.records(ctx, s, raw, o.Options); err != nil {
			return err
		}
		return p.versions(ctx, s, o)
	})
	if err != nil {
		return nil, fmt.Errorf("read the part to be sent: %w", err)
	}
	p.head.Seq = p.To.Seq
	return p, nil
}

// Log returns the stream of the part's log. link is data of the caller, stored in the head.
func (p *Part) Log(link []byte) ([]byte, error) {
	h := p.head
	h.Link = link
	return encodePart(logMagic, p.size, func(w *streamWriter, c *Totals) error {
		if err := w.put(streamHeadKind, nil, encode(&h)); err != nil {
			return err
		}
		for _, r := range p.log {
			if r.kind == store.RecordVersion {
				c.Versions++
			} else {
				c.Records++
			}
			if err := w.put(r.kind, r.key, r.val); err != nil {
				return err
			}
		}
		return nil
	})
}

func encodePart(magic string, size int, fill func(*streamWriter, *Totals) error) ([]byte, error) {
	var b bytes.Buffer
	w, err := newStreamWriter(&b, magic, min(streamWindow, max(64<<10, 1<<bits.Len(uint(max(size, 2)-1)))))
	if err != nil {
		return nil, err
	}
	var c Totals
	if err := fill(w, &c); err != nil {
		_ = w.z.Close()
		return nil, err
	}
	err = w.end(c)
	return b.Bytes(), err
}

func (p *Part) add(kind byte, key, val []byte) {
	p.log = append(p.log, partRecord{kind, bytes.Clone(key), bytes.Clone(val)})
	p.size += len(key) + len(val)
}

// errFull ends a walk when the part is full.
var errFull = errors.New("full")

// records adds the records other than versions that were written since the position. It leaves out
// open plans, because a client on this machine is carrying them out. Once a plan has ended, all of
// it is added.
func (p *Part) records(ctx context.Context, s *store.Store, raw store.Raw, o Options) (err error) {
	if p.To.Until == 0 {
		p.To.Until, err = raw.Moment()
		if err != nil || p.To.Until == p.To.Moment {
			p.To.Until = 0
			return err
		}
		p.To.Kind, p.To.Key = 0, nil
	}
	open, err := s.Journal.Open()
	if err != nil {
		return err
	}
	for ; p.To.Kind < len(store.Independent); p.To.Kind, p.To.Key = p.To.Kind+1, nil {
		kind := store.Independent[p.To.Kind]
		if kind == store.RecordPlanStep { // steps are added with their plans
			continue
		}
		err := raw.WrittenSince(p.To.Moment, kind, p.To.Key, func(key, val []byte) error {
			if len(p.log) >= partRecords || p.size >= partBytes {
				p.To.Key = bytes.Clone(key)
				return errFull
			}
			switch {
			case kind == store.RecordKV && !o.takes(key):
			case kind == store.RecordPlan:
				id := planID(key)
				if id == string(key) && !slices.ContainsFunc(open, func(o store.Plan) bool { return o.ID == id }) {
					return p.plan(raw, id)
				}
			default:
				p.add(kind, key, val)
			}
			return ctx.Err()
		})
		if errors.Is(err, errFull) {
			p.More = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	p.To = Position{Seq: p.To.Seq, Moment: p.To.Until}
	return nil
}

// plan adds a whole plan: head, parts and steps.
func (p *Part) plan(raw store.Raw, id string) error {
	for _, kind := range []byte{store.RecordPlan, store.RecordPlanStep} {
		err := raw.WrittenSince(0, kind, []byte(id), func(key, val []byte) error {
			if planID(key) != id {
				return errFound
			}
			p.add(kind, key, val)
			return nil
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
	}
	return nil
}

// versions adds the new versions of the log, and the contents that no earlier part had.
func (p *Part) versions(ctx context.Context, s *store.Store, o PartOptions) error {
	if p.More {
		return nil
	}
	vs, err := s.Since(p.To.Seq, partVersions)
	if err != nil {
		return err
	}
	p.More = len(vs) == partVersions
	took := map[store.Hash]bool{}
	size := 0
	var due [][]byte
	for _, v := range vs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.Leave != nil && o.Leave(v) {
			p.To.Seq = v.Seq
			continue
		}
		if v.Blob != (store.Hash{}) && !took[v.Blob] {
			has, err := o.Has(v.Blob)
			if err != nil {
				return err
			}
			if !has {
				b, err := s.Content(v.Blob)
				switch {
				case errors.Is(err, store.ErrPruned), errors.Is(err, store.ErrDamaged):
					v.Blob, v.NoContent = store.Hash{}, "damaged" // unreadable; fsck reports it
				case err != nil:
					return err
				case size > 0 && size+len(b) > partBytes:
					p.More = true
					return p.pack(p.Sent, due, size)
				default:
					took[v.Blob] = true
					p.Sent, due = append(p.Sent, v.Blob), append(due, b)
					size += len(b)
				}
			}
		}
		p.add(store.RecordVersion, binary.BigEndian.AppendUint64(nil, v.Seq), encode(&v))
		p.Versions++
		p.To.Seq = v.Seq
	}
	return p.pack(p.Sent, due, size)
}

func (p *Part) pack(hashes []store.Hash, contents [][]byte, size int) (err error) {
	if len(hashes) == 0 {
		return nil
	}
	p.Contents, err = encodePart(contentsMagic, size, func(w *streamWriter, c *Totals) error {
		for i, b := range contents {
			c.Contents++
			c.Bytes += int64(len(b))
			if err := w.put(streamContent, hashes[i][:], b); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// LinkOf returns the link that was passed to Log.
func LinkOf(log []byte) ([]byte, error) {
	var h streamHead
	_, err := readRecords(bytes.NewReader(log), logMagic, streamValue, func(_ byte, _, val []byte) error {
		if decode(val, &h) != nil {
			return badStream("a head cannot be read")
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return h.Link, err
}
