package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// returns is what the journal keeps of a goal.
func (g *goal) returns() store.Return {
	r := store.Return{Path: g.path, Was: g.have.seq, Back: g.want.seq, Made: g.made, Edits: g.edits, Part: g.part}
	if g.made {
		r.Took = g.took
	}
	return r
}

// steps turns goals into a plan's steps: renames first (they need no content,
// keep the inode and carry along what is not captured), then what has to go,
// deepest first, directories, parents first, and what has to be written.
func (m *maker) steps(goals []goal) error {
	slices.SortFunc(goals, func(a, b goal) int { return strings.Compare(string(a.path), string(b.path)) })
	for _, g := range goals {
		m.plan.Returns = append(m.plan.Returns, g.returns())
	}
	x := &stepper{maker: m, made: map[store.Path]bool{}, goals: map[store.Path]*goal{}}
	for i := range goals {
		x.goals[goals[i].path] = &goals[i]
	}
	for _, g := range m.same { // a later plan has to know that this was to be so
		if x.goals[g.path] == nil && g.have.seq != g.want.seq {
			m.plan.Returns = append(m.plan.Returns, g.returns())
		}
	}
	if err := x.open(goals); err != nil {
		return err
	}
	if err := x.renames(); err != nil {
		return err
	}
	all := x.all()
	x.rejoin(all)
	x.removals(all)
	for _, g := range all {
		if g.want.dir() && !g.have.dir() {
			x.parents(g.path, false)
			x.mkdir(g)
		}
	}
	fates, err := x.fates(all)
	if err != nil {
		return err
	}
	joined, err := x.join(all, fates)
	if err != nil {
		return err
	}
	for _, g := range all {
		if to := joined[g]; to != "" && g.have.nlink > 1 && (x.goals[to] == nil || x.goals[to].have.in != g.have.in) {
			x.remove(g) // what is written in place is not for it
		}
	}
	fates, err = x.fates(all)
	if err != nil {
		return err
	}
	// First what gets a file of its own, then what is written in place, and then
	// what becomes another name of either.
	for _, g := range all {
		if len(fates[g].others) > 0 && joined[g] == "" {
			x.write(g, true)
		}
	}
	linked := map[store.Path]bool{}
	for _, g := range all {
		if len(fates[g].others) > 0 || linked[g.path] || joined[g] != "" {
			continue
		}
		// What came in place of another file may have names of which nothing is known.
		apart := g.parted() && g.have.nlink > 1 && !g.want.equal(g.have) ||
			g.needsNewFile() && g.have.nlink > 1 && len(fates[g].with)+1 == int(g.have.nlink) && x.has(g.want.blob)
		x.write(g, apart)
		for _, o := range fates[g].with {
			st := store.Step{Do: store.DoLink, Path: o, To: g.path}
			linked[o] = true
			if apart {
				st.Blob = g.want.blob
				st = expect(st, x.goals[o].have)
			}
			x.add(st)
		}
	}
	for _, g := range all {
		if to := joined[g]; to != "" && !linked[g.path] {
			x.parents(g.path, false)
			x.add(expect(store.Step{Do: store.DoLink, Path: g.path, To: to, Blob: g.want.blob}, g.have))
		}
	}
	for _, st := range slices.Backward(x.shut) {
		x.add(st)
	}
	x.count()
	return nil
}

// fates are those of all goals.
func (x *stepper) fates(all []*goal) (map[*goal]fate, error) {
	byFile, fates := filesOf(all), map[*goal]fate{}
	for _, g := range all {
		f, err := x.fateOf(x.goals, byFile, g)
		if err != nil {
			return nil, err
		}
		if f.with != nil || f.others != nil {
			fates[g] = f
		}
	}
	return fates, nil
}

type stepper struct {
	*maker
	goals  map[store.Path]*goal
	made   map[store.Path]bool // directories that exist by now
	writes []write
	shut   []store.Step // of directories that nobody may change afterwards

	mu    sync.Mutex // guards bytes and the plan's read, while lines are counted
	bytes int
}

// write is a step that brings content, whose lines are still to be counted.
type write struct {
	step       int // index in the plan
	want, have state
}

func (x *stepper) add(st store.Step) {
	st.N = len(x.plan.Steps) + 1
	x.plan.Steps = append(x.plan.Steps, st)
}

// expect describes what must be there when a step is carried out.
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

// given adds whose the file is to be.
func (s state) given(st store.Step) store.Step {
	st.Owned, st.UID, st.GID, st.Attrs = s.owned, s.uid, s.gid, s.attrs
	return st
}

// parents makes the missing directories above a path that no goal makes; with
// now, also those that a goal's own step would make later.
func (x *stepper) parents(p store.Path, now bool) {
	dir := store.Path(path.Dir(string(p)))
	if dir == "." || dir == "/" || x.made[dir] {
		return
	}
	g := x.goals[dir]
	if g != nil && g.want.dir() {
		if now && g.have.absent() {
			x.parents(dir, true)
			x.mkdir(g)
		}
		return
	}
	v, found, err := x.view.Current(dir)
	if g == nil && err == nil && found && !v.Deleted() {
		return
	}
	if g != nil || err == nil && found || x.gone(dir) {
		x.parents(dir, now)
		x.add(store.Step{Do: store.DoMkdir, Path: dir, Mode: 0o40755})
	}
	x.made[dir] = true
}

// mkdir makes the directory of a goal.
func (x *stepper) mkdir(g *goal) {
	st := g.want.given(store.Step{Do: store.DoMkdir, Path: g.path, Mode: g.want.mode | inAndOut, Expect: store.ExpectAbsent})
	x.add(st)
	if st.Mode != g.want.mode {
		x.shutLater(g.path, st.Mode, g.want)
	}
	g.have, x.made[g.path] = g.want, true
}

// gone: nothing at all is known to live at or below a directory.
func (x *stepper) gone(dir store.Path) bool {
	empty := true
	x.view.Live(dir, func(store.Version) error { empty = false; return errStop })
	return empty
}

// all are the goals in order of their paths.
func (x *stepper) all() []*goal {
	all := make([]*goal, 0, len(x.goals))
	for _, g := range x.goals {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *goal) int { return strings.Compare(string(a.path), string(b.path)) })
	return all
}

// removals deletes what must not be there, children before parents.
func (x *stepper) removals(goals []*goal) {
	for _, g := range slices.Backward(goals) {
		if !g.have.absent() && (g.want.absent() || g.have.kind() != g.want.kind()) {
			x.remove(g)
		}
	}
}

func (x *stepper) remove(g *goal) {
	do := store.DoDelete
	if g.have.dir() {
		do = store.DoRmdir
	} else if g.have.regular() && g.have.blob != (store.Hash{}) {
		x.writes = append(x.writes, write{len(x.plan.Steps), state{}, g.have})
	}
	x.add(expect(store.Step{Do: do, Path: g.path}, g.have))
	g.have = state{}
}

// onlyTime reports whether nothing but the time of the file differs from what is wanted.
func (g *goal) onlyTime() bool { return g.retime && g.want.equal(g.have) && !g.parted() }

// write brings content, link, mode or time.
func (x *stepper) write(g *goal, apart bool) {
	w := g.want
	if g.onlyTime() && !apart {
		x.add(expect(store.Step{Do: store.DoChmod, Path: g.path, Mode: g.have.mode, Mtime: w.mtime}, g.have))
		return
	}
	if w.absent() || w.equal(g.have) && !(apart && g.parted()) {
		return
	}
	if w.lends(g.have) && g.have.nlink < 2 && x.has(w.blob) {
		apart = true
	}
	st := w.given(store.Step{Path: g.path, Mode: w.mode, Mtime: w.mtime, Size: w.size, Apart: apart})
	switch {
	case w.sameContent(g.have) && !apart:
		st.Do = store.DoChmod
		if !g.retime {
			st.Mtime = 0
		}
		if w.dir() && closed(w.mode) {
			x.shutLater(g.path, g.have.mode, w)
			return
		}
	case w.link():
		st.Do, st.Target = store.DoSymlink, w.target
		x.parents(g.path, false)
	case w.regular() && !x.has(w.blob):
		x.cannot(g, "the content is not kept, and it cannot be moved back")
		return
	case w.regular():
		st.Do, st.Blob = store.DoWrite, w.blob
		x.parents(g.path, false)
		x.writes = append(x.writes, write{len(x.plan.Steps), w, g.have})
	default:
		x.cannot(g, "devices, sockets and pipes are not brought back")
		return
	}
	x.add(expect(st, g.have))
}

// cannot tells of what does not come back. The path is then as it was once before,
// and a later undo has to know what of: what led there was not taken back.
func (x *stepper) cannot(g *goal, why string) {
	x.lose(store.Conflict{Path: g.path, Why: why})
	own, err := x.view.History(g.path, false)
	if err != nil || !g.have.absent() {
		return
	}
	back := uint64(0)
	for _, v := range own {
		if v.Seq < g.want.seq && v.Deleted() {
			back = v.Seq
		}
	}
	for i := range x.plan.Returns {
		if r := &x.plan.Returns[i]; r.Path == g.path && r.Back == g.want.seq {
			r.Back = back
		}
	}
}

// counted is of how many steps the lines are counted: more than anybody reads, and what
// can be unpacked in a fraction of a second. Of 42,000 it took 14 s.
const counted = 500

// count fills in the lines that each of the first writes and deletions adds and removes,
// for the diffstat. It needs the contents unpacked, so all processors share the work, in
// the order in which the contents lie in the store.
func (x *stepper) count() {
	const portion = 64
	if len(x.writes) > counted {
		x.writes, x.plan.Partly = x.writes[:counted], true
	}
	slices.SortFunc(x.writes, func(a, b write) int {
		return content.ComparePlaces(x.kept[a.want.blob].Place, x.kept[b.want.blob].Place)
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

// lines are zero for what is binary, too large or not to be had.
func (x *stepper) lines(w write) (added, removed int) {
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

// readMost bounds what a draft keeps of the contents that were read to make it, in
// bytes.
const readMost = 24 << 20

// keep leaves a content to who carries the plan out.
func (x *stepper) keep(h store.Hash, b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.plan.Read[h]; !ok && x.bytes+len(b) <= readMost {
		x.plan.Read[h] = b
		x.bytes += len(b)
	}
}
