package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

type stepper struct {
	*maker
	writes []write

	mu    sync.Mutex // guards bytes and the plan's Read while lines are counted
	bytes int
}

// write is a step that writes or deletes content and whose lines are to be counted.
type write struct {
	step       int // index in the plan
	want, have state
}

func (x *stepper) add(st store.Step) {
	st.N = len(x.plan.Steps) + 1
	x.plan.Steps = append(x.plan.Steps, st)
}

// expect sets what the present file must be when the step is carried out.
func expect(st store.Step, have state) store.Step {
	switch {
	case have.absent():
		st.Expect = store.ExpectAbsent
	case have.regular() && have.blob != store.Hash{}:
		st.Expect, st.ExpMode = hex.EncodeToString(have.blob[:]), have.mode
	case have.link() && have.target != "":
		h := sha256.Sum256([]byte(have.target))
		st.Expect, st.ExpMode = hex.EncodeToString(h[:]), have.mode
	default:
		st.ExpMode = have.mode
	}
	return st
}

func (s state) withOwner(st store.Step) store.Step {
	st.Owned, st.Attrs = s.owned, s.attrs
	st.UID, st.GID = s.uid, s.gid
	return st
}

// counted is the number of steps whose lines are counted. This is more than anybody reads and takes
// a fraction of a second. Counting 42,000 steps takes 14 s.
const counted = 500

// countLater adds a step to those whose lines will be counted, unless there are enough.
func (x *stepper) countLater(w write) {
	if len(x.writes) == counted {
		x.plan.Partly = true
		return
	}
	x.writes = append(x.writes, w)
}

// count sets the added and removed lines of the first writes and deletions, for the diffstat. All
// processors share the work of decoding the contents, in the order of their places in the store.
func (x *stepper) count() {
	const portion = 64
	slices.SortFunc(x.writes, func(a, b write) int {
		return content.ComparePlaces(x.contents.kept[a.want.blob].Place, x.contents.kept[b.want.blob].Place)
	})
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(x.writes)/portion+1) {
		wg.Go(func() {
			for {
				i := int(next.Add(portion)) - portion
				if i >= len(x.writes) {
					return
				}
				for _, w := range x.writes[i:min(i+portion, len(x.writes))] {
					st := &x.plan.Steps[w.step]
					st.Added, st.Removed = x.lines(w)
				}
			}
		})
	}
	wg.Wait()
}

// lines returns 0 for contents that are binary, too large or not available. The content of an ignored
// file may not be available in a dry run, which does not store present contents.
func (x *stepper) lines(w write) (added, removed int) {
	if w.have.regular() && w.have.size > 0 && w.have.blob == (store.Hash{}) {
		return 0, 0
	}
	want, ok := x.plan.Made[w.want.blob]
	if !ok && w.want.regular() {
		var err error
		want, err = x.store.Content(w.want.blob)
		if err != nil {
			return 0, 0
		}
		x.keep(w.want.blob, want)
	}
	var have []byte
	if w.have.regular() && w.have.blob != (store.Hash{}) {
		have, _ = x.store.Content(w.have.blob)
	}
	want, isText := text.Shown(want)
	have, wasText := text.Shown(have)
	if !isText || !wasText || len(want)+len(have) > 4<<20 {
		return 0, 0
	}
	switch {
	case len(have) == 0:
		return text.Lines(want), 0
	case len(want) == 0:
		return 0, text.Lines(have)
	}
	sc := diff.Compare(have, want)
	return sc.Added(), sc.Removed()
}

const maxRead = 24 << 20

// keep adds a content to Draft.Read, up to maxRead.
func (x *stepper) keep(h store.Hash, b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.plan.Read[h]; !ok && x.bytes+len(b) <= maxRead {
		x.plan.Read[h] = b
		x.bytes += len(b)
	}
}
