package store

import (
	"bytes"
	"encoding/binary"
	"errors"

	badger "github.com/dgraph-io/badger/v4"
)

// This file reads and writes raw records for store/portable, which copies a whole history to
// another machine.

// The kinds of records. A kind is the first byte of the key.
const (
	RecordVersion  = byte(kVersion)
	RecordSession  = byte(kSession)
	RecordPrompt   = byte(kPrompt)
	RecordToolCall = byte(kToolCall)
	RecordKV       = byte(kKV)
	RecordPlan     = byte(kPlan)
	RecordPlanStep = byte(kPlanStep)
)

// Independent lists the kinds of records that cannot be derived from the versions. The order puts a
// plan's head before its parts, and all plans before their steps.
var Independent = []byte{kSession, kPrompt, kToolCall, kToolList, kWorking, kGap, kNotice, kKV, kPlan, kPlanStep}

// DecodeVersion reads a record of kind RecordVersion.
func DecodeVersion(key, val []byte) (Version, error) {
	return decodeVersion(append([]byte{kVersion}, key...), val)
}

// Raw gives access to the records of the store during a call of Store.Raw. No record is dropped or
// moved during the call. Versions are still added, with numbers above Seq.
type Raw struct {
	s    *Store
	Seq  uint64
	Gaps int64 // gaps ever recorded
}

// Raw calls fn. Retention does not run until fn returns.
func (s *Store) Raw(fn func(Raw) error) error {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	st := s.state.Load()
	return fn(Raw{s: s, Seq: st.Seq, Gaps: st.GapCount})
}

// Records calls fn with all records of a kind, sorted by key. The keys are passed without the
// kind byte. The slices are valid only during the call. Versions of a group are passed as
// records, too.
func (r Raw) Records(kind byte, fn func(key, val []byte) error) error {
	var groups []*group // whose versions were not passed to fn yet
	if kind == kVersion {
		groups = r.s.groups.upTo(r.Seq)
	}
	return r.s.db.View(func(txn *badger.Txn) error {
		grouped := func(before uint64) error {
			for ; len(groups) > 0 && groups[0].first <= before; groups = groups[1:] {
				err := r.s.groups.eachIn(txn, groups[0], func(v Version) error { return fn(keyVersion(v.Seq)[1:], encode(&v)) })
				if err != nil {
					return err
				}
			}
			return nil
		}
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kind}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()[1:]
			if kind == kVersion {
				if len(key) != 8 || binary.BigEndian.Uint64(key) > r.Seq {
					continue
				}
				if err := grouped(binary.BigEndian.Uint64(key)); err != nil {
					return err
				}
			}
			if err := it.Item().Value(func(val []byte) error { return fn(key, val) }); err != nil {
				return err
			}
		}
		return grouped(r.Seq)
	})
}

// Moment returns the current position in the sequence of the database's transactions. Everything
// stored after the call has a later position.
func (r Raw) Moment() (at uint64, err error) {
	err = r.s.db.View(func(txn *badger.Txn) error { at = txn.ReadTs(); return nil })
	return at, err
}

// WrittenSince calls fn with the records of a kind that were written after moment, sorted by
// key, beginning at the key from. Deleted records are not included.
func (r Raw) WrittenSince(moment uint64, kind byte, from []byte, fn func(key, val []byte) error) error {
	return r.s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: []byte{kind}, SinceTs: moment})
		defer it.Close()
		for it.Seek(append([]byte{kind}, from...)); it.Valid(); it.Next() {
			key := it.Item().Key()[1:]
			if err := it.Item().Value(func(val []byte) error { return fn(key, val) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// ByPath calls fn with all versions: first those that have records, sorted by path and number, and
// then those of groups.
func (r Raw) ByPath(fn func(Version) error) error {
	return r.s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kPath}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			_, seq, ok := parsePathKey(it.Item().Key())
			if !ok || seq > r.Seq {
				continue
			}
			v, err := r.s.versionIn(txn, seq)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err == nil {
				err = fn(v)
			}
			if err != nil {
				return err
			}
		}
		for _, g := range r.s.groups.upTo(r.Seq) {
			if err := r.s.groups.eachIn(txn, g, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// fillBytes and fillCount limit the size of one batch of a Filler.
	fillBytes = 4 << 20
	fillCount = 500
)

// Filler copies the records of another store into a store that no other process uses. The target
// may already hold records of an earlier copy.
type Filler struct {
	s     *Store
	b     *batch // nil if nothing is pending
	held  int
	bytes int64
	near  Hash // the previous content, probably similar to the next one
}

// FillNew calls fn to fill a store that no other process uses. If fn fails, part of the records may
// already be stored.
func (s *Store) FillNew(fn func(*Filler) error) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	f := &Filler{s: s}
	if err := fn(f); err != nil {
		if f.b != nil {
			f.b.w.Close()
		}
		return err
	}
	return f.commit()
}

// batch returns the batch that is being filled. It commits a full batch and begins a new one.
func (f *Filler) batch(n int64) (*batch, error) {
	if f.held >= fillCount || f.bytes+n > fillBytes {
		if err := f.commit(); err != nil {
			return nil, err
		}
	}
	if f.b == nil {
		if err := f.s.room.Check(fillBytes); err != nil {
			return nil, err
		}
		f.b = f.s.newBatch()
	}
	f.held++
	f.bytes += n
	return f.b, nil
}

func (f *Filler) commit() error {
	if f.b == nil {
		return nil
	}
	b := f.b
	f.b = nil
	f.held, f.bytes = 0, 0
	defer b.discard()
	return b.commit()
}

// Begin copies the number of gaps of the other store.
func (f *Filler) Begin(gaps int64) error {
	b, err := f.batch(0)
	if err == nil {
		b.next.GapCount = gaps
	}
	return err
}

// Record stores a record of one of the kinds in Independent.
func (f *Filler) Record(kind byte, key, val []byte) error {
	b, err := f.batch(int64(len(key) + len(val)))
	if err != nil {
		return err
	}
	return b.w.Set(append([]byte{kind}, key...), bytes.Clone(val))
}

// Content stores a content whose hash is h.
func (f *Filler) Content(h Hash, content []byte) error {
	b, err := f.batch(int64(len(content)))
	if err != nil {
		return err
	}
	err = b.contents.PutHashed(h, bytes.Clone(content), f.near)
	f.near = h
	return err
}

// Version stores a version. Its number must be above all stored ones. Version returns ErrNotFound
// if the store does not have the content.
func (f *Filler) Version(v Version) error {
	b, err := f.batch(512)
	if err != nil {
		return err
	}
	if v.Blob != (Hash{}) && !b.contents.Has(v.Blob) {
		return ErrNotFound
	}
	was, wasLive, err := b.live(v.Path)
	if err != nil {
		return err
	}
	v.Foreign = true
	b.next.Seq = v.Seq
	return b.place(v, was, wasLive)
}
