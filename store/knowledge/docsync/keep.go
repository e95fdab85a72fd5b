package docsync

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
)

const (
	// saveBytes and saveMany limit one transaction of the store.
	saveBytes = 256 << 10
	saveMany  = 500
	// endedFor is how long the baseline of an ended pair is kept.
	endedFor = int64(30 * 24 * time.Hour)
	// keptEnded limits the number of these baselines.
	keptEnded = 10_000
)

// put stores a baseline.
func (s *Sync) put(k key, b *baseline) {
	if len(k.doc) > maxPath || len(k.spec) > maxPath {
		return
	}
	s.bases[k] = b
	s.changed[baseName(k)] = b
}

func baseName(k key) string { return "base\x00" + string(k.doc) + "\x00" + k.spec }

// save writes all changes and, in the last transaction, the position in the log. An interrupted
// batch is simply processed again.
func (s *Sync) save() error {
	s.forgetEnded()
	vals, size := map[string][]byte{}, 0
	put := func(name string, v any) error {
		if v == nil {
			vals[name] = nil
			return nil
		}
		val, err := cbor.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode the pairs of documents: %w", err)
		}
		vals[name] = val
		size += len(name) + len(val)
		return nil
	}
	for name, v := range s.changed {
		if err := put(name, v); err != nil {
			return err
		}
		if size > saveBytes || len(vals) >= saveMany {
			if err := s.kv.SetAll(vals); err != nil {
				return err
			}
			vals, size = map[string][]byte{}, 0
		}
	}
	if err := put("at", s.at); err != nil {
		return err
	}
	if err := s.kv.SetAll(vals); err != nil {
		return err
	}
	if len(s.changed) > 0 {
		clear(s.changed)
		s.pin()
	}
	return nil
}

// forgetEnded drops the baselines of pairs that ended long ago.
func (s *Sync) forgetEnded() {
	if len(s.changed) == 0 {
		return
	}
	ended := 0
	for k, b := range s.bases {
		if b.Ended == 0 {
			continue
		}
		ended++
		if ended > keptEnded || s.clock-b.Ended > endedFor && b.Ended > 1 {
			delete(s.bases, k)
			s.changed[baseName(k)] = nil
		}
	}
}
