package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// Journal stores the plans that were begun, and their progress.
type Journal struct {
	s *Store
}

// Begin gives a plan its ID and writes it into the journal. Until Finish is called, the plan is
// open and retention keeps its contents. made holds contents that the steps write but that no
// version has.
func (j *Journal) Begin(ctx context.Context, p *Plan, made map[Hash][]byte) error {
	if p.ID != "" {
		return fmt.Errorf("plan %s was begun before", p.ID)
	}
	err := j.s.write(func(b *batch) error {
		for h, content := range made {
			if err := b.contents.PutHashed(h, content, Hash{}); err != nil {
				return err
			}
		}
		p.Begun = j.s.opt.Now().UnixNano()
		for n := uint64(p.Begun) / 1000; ; n++ {
			p.ID = fmt.Sprintf("%s-%x", p.Kind, n)
			if _, err := b.w.Txn.Get(keyNamed(kPlan, p.ID)); err != nil {
				break
			}
		}
		if err := j.s.room.Check(int64(len(p.Steps)) * 256); err != nil {
			return err
		}
		return b.putPlan(p)
	})
	if err != nil {
		p.ID = ""
	}
	return err
}

// putPlan writes the head of a plan under its key, and the steps in pieces under the keys after it.
// A single value for a plan of 10,000 files would be too long.
func (b *batch) putPlan(p *Plan) error {
	head := *p
	head.Steps, head.Returns, head.Cells = nil, nil, nil
	const many = 500
	for i := 0; i*many < max(len(p.Steps), len(p.Returns), len(p.Cells)); i++ {
		part := Plan{Steps: portion(p.Steps, i*many, many), Returns: portion(p.Returns, i*many, many), Cells: portion(p.Cells, i*many, many)}
		if err := b.w.Set(keyPlanPart(p.ID, i), encode(&part)); err != nil {
			return err
		}
	}
	return b.w.Set(keyNamed(kPlan, p.ID), encode(&head))
}

func portion[T any](s []T, from, n int) []T {
	from = min(from, len(s))
	return s[from:min(len(s), from+n)]
}

func keyPlanPart(id string, n int) []byte {
	return binary.BigEndian.AppendUint32(append(keyNamed(kPlan, id), 0), uint32(n))
}

// Plan returns a plan of the journal with its Done steps. It returns ErrNotFound if there is no
// such plan.
func (j *Journal) Plan(id string) (Plan, error) {
	var p Plan
	err := j.s.db.View(func(txn *badger.Txn) (err error) {
		p, err = planHead(txn, id)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			var part Plan
			found, err := txnGet(txn, keyPlanPart(id, i), &part)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			p.Steps = append(p.Steps, part.Steps...)
			p.Returns = append(p.Returns, part.Returns...)
			p.Cells = append(p.Cells, part.Cells...)
		}
		prefix := append(keyNamed(kPlanStep, id), 0)
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := it.Item().Key(); len(key) == len(prefix)+4 {
				p.Done = append(p.Done, int(binary.BigEndian.Uint32(key[len(prefix):])))
			}
		}
		return nil
	})
	return p, err
}

// Head returns a plan of the journal without its steps. It returns ErrNotFound if there is no such
// plan.
func (j *Journal) Head(id string) (p Plan, err error) {
	err = j.s.db.View(func(txn *badger.Txn) (err error) {
		p, err = planHead(txn, id)
		return err
	})
	return p, err
}

func planHead(txn *badger.Txn, id string) (p Plan, err error) {
	found, err := txnGet(txn, keyNamed(kPlan, id), &p)
	if err == nil && !found {
		err = fmt.Errorf("there is no plan %q: %w", id, ErrNotFound)
	}
	return p, err
}

// Plans returns all plans of the journal without their steps, newest first.
func (j *Journal) Plans() ([]Plan, error) {
	var out []Plan
	err := j.s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false, Prefix: []byte{kPlan}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if slices.Contains(it.Item().Key(), 0) {
				continue // this record holds steps of a plan, not its head
			}
			var p Plan
			if err := it.Item().Value(func(v []byte) error { return decode(v, &p) }); err != nil {
				return damaged(err)
			}
			out = append(out, p)
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b Plan) int { return cmp.Compare(b.Begun, a.Begun) })
	return out, err
}

// Open returns the plans that were begun but not finished, for example because the client was
// killed. Such a plan may be resumed or rolled back.
func (j *Journal) Open() ([]Plan, error) {
	heads, err := j.Plans()
	if err != nil {
		return nil, err
	}
	var out []Plan
	for _, h := range heads {
		if h.Finished == 0 {
			p, err := j.Plan(h.ID)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// Done records that steps were carried out.
func (j *Journal) Done(id string, ns ...int) error {
	err := j.s.db.Update(func(txn *badger.Txn) error {
		for _, n := range ns {
			if err := txn.Set(keyPlanStep(id, n), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("journal plan %s: %w", id, err)
	}
	return nil
}

func keyPlanStep(id string, n int) []byte {
	return binary.BigEndian.AppendUint32(append(keyNamed(kPlanStep, id), 0), uint32(n))
}

// Finish closes a plan. failed lists the paths of the steps that failed.
func (j *Journal) Finish(id string, failed []Conflict) error {
	j.s.writeMu.Lock()
	defer j.s.writeMu.Unlock()
	p, err := j.Head(id)
	if err != nil {
		return err
	}
	if p.Finished != 0 {
		return nil
	}
	p.Finished, p.Failed = j.s.opt.Now().UnixNano(), append(p.Failed, failed...)
	b := j.s.newBatch()
	defer b.discard()
	if err := b.w.Set(keyNamed(kPlan, id), encode(&p)); err != nil {
		return err
	}
	return b.commit()
}
