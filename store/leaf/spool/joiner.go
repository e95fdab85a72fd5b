package spool

import (
	"context"
	"time"
)

// Joined is a record together with its content.
type Joined struct {
	Record *Record
	// HasContent means that Content is set, for a version or a late KindContent. It is false for a
	// version that should have content if its Writer died, a gap was recorded, the content cannot be
	// read (Err), or it was not written in time. In the last case the content follows later as a
	// separate Joined whose Record is the KindContent.
	HasContent bool
	Content    []byte
	Err        error
	// Last is the highest Seq of the joined records.
	Last uint64
	// After is the Position to store as checkpoint after this Joined was handled.
	After Position
}

// Joiner reads a spool in order of Seq and returns each version together with its content, which is
// later in the log. The records after the version wait until the content is read.
type Joiner struct {
	r *Reader
	// MaxWait limits how long a version without content delays later records. On a full disk it may
	// take hours until the content is written.
	MaxWait time.Duration
	// MaxPending limits the number of waiting records.
	MaxPending int

	last    Position   // the After of the last returned Joined
	pending []*pending // in order of Seq
	waiting map[uint64]*pending
}

type pending struct {
	j       Joined
	content *Record // the KindContent record; nil: none
	ready   bool
	since   time.Time
}

func (h *pending) read(r *Reader) Joined {
	h.j.Last = h.j.Record.Seq
	if h.content == nil {
		return h.j
	}
	h.j.Last = max(h.j.Last, h.content.Seq)
	h.j.Content, h.j.Err = r.Content(h.content)
	h.j.HasContent = h.j.Err == nil
	return h.j
}

// NewJoiner starts at the Reader's Position, with a MaxWait of 5 s and a MaxPending of 100,000.
func NewJoiner(r *Reader) *Joiner {
	return &Joiner{r: r, MaxWait: 5 * time.Second, MaxPending: 100_000, waiting: make(map[uint64]*pending), last: r.Position()}
}

// Next returns the next record in order and waits for it if necessary. Its errors are those of
// Reader.TryNext and of the context.
func (j *Joiner) Next(ctx context.Context) (Joined, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		x, ok, err := j.TryNext()
		if ok || err != nil {
			return x, err
		}
		d := time.Minute
		if len(j.pending) > 0 {
			d = pause // poll, because no event reports that the Writer has died
		}
		if err := j.r.wait(ctx, d); err != nil {
			return Joined{}, err
		}
	}
}

// TryNext is like Next, but does not wait. It returns false if no record is available.
func (j *Joiner) TryNext() (Joined, bool, error) {
	for {
		if len(j.pending) > 0 && j.pending[0].ready {
			h := j.pending[0]
			j.pending[0] = nil
			j.pending = j.pending[1:]
			j.last = h.j.After
			return h.read(j.r), true, nil
		}
		if len(j.pending) >= j.MaxPending {
			j.giveUp(1)
			continue
		}
		rec, err := j.r.TryNext()
		if err != nil {
			return Joined{}, false, err
		}
		if rec == nil {
			if len(j.pending) == 0 {
				return Joined{}, false, nil
			}
			if !j.r.WriterAlive() {
				// The Writer died before this check, so one more read returns everything that it
				// wrote.
				rec, err = j.r.TryNext()
				if err != nil {
					return Joined{}, false, err
				}
				if rec == nil {
					j.giveUp(len(j.pending))
					continue
				}
			} else if time.Since(j.pending[0].since) < j.MaxWait {
				return Joined{}, false, nil
			} else {
				j.giveUp(1)
				continue
			}
		}
		j.take(rec)
	}
}

// take adds a record to the pending ones, or joins a content to the version that waits for it.
func (j *Joiner) take(rec *Record) {
	h := &pending{j: Joined{Record: rec, After: j.r.Position()}, ready: true, since: time.Now()}
	switch {
	case rec.Kind == KindContent:
		h.content = rec
		if v := j.waiting[rec.For]; v != nil {
			delete(j.waiting, rec.For)
			v.content, v.ready = rec, true
			return
		}
	case rec.Kind == KindGap && rec.For != 0:
		if v := j.waiting[rec.For]; v != nil {
			delete(j.waiting, rec.For)
			v.ready = true
		}
	case rec.Kind == KindMount:
		j.giveUp(len(j.pending)) // a new mount: the Writer that these records wait for is gone
	case rec.Kind == KindVersion && rec.HasContent:
		h.ready = false
		j.waiting[rec.Seq] = h
	}
	j.pending = append(j.pending, h)
}

// giveUp makes the waiting records among the first n pending ones ready without their content.
func (j *Joiner) giveUp(n int) {
	for _, h := range j.pending[:n] {
		if !h.ready {
			delete(j.waiting, h.j.Record.Seq)
			h.ready = true
		}
	}
}

// Pending returns the number of records that wait for an earlier record's content.
func (j *Joiner) Pending() int { return len(j.pending) }

// Checkpoint returns the Position at which a later Reader may start once everything returned was
// handled. If no record is pending and the result is not Before Head, everything appended was
// returned.
func (j *Joiner) Checkpoint() Position {
	if len(j.pending) > 0 {
		return j.last
	}
	return j.r.Position()
}
