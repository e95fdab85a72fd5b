package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cachebro/store/diff"
)

// steps turns goals into a plan's steps: renames first (they need no content,
// keep the inode and carry along what is not captured), then what has to go,
// deepest first, directories, parents first, and what has to be written.
func (s *Store) steps(p *Plan, goals []goal) error {
	slices.SortFunc(goals, func(a, b goal) int { return strings.Compare(string(a.path), string(b.path)) })
	for _, g := range goals {
		p.Returns = append(p.Returns, Return{Path: g.path, Was: g.have.seq, Back: g.want.seq, Made: g.made})
	}
	x := &stepper{s: s, p: p, made: map[Path]bool{}, goals: map[Path]*goal{}}
	for i := range goals {
		x.goals[goals[i].path] = &goals[i]
	}
	if err := x.open(goals); err != nil {
		return err
	}
	x.renameDirs(goals)
	x.renameFiles(goals)
	x.removals(goals)
	for i := range goals {
		g := &goals[i]
		if g.want.dir() && !g.have.dir() {
			x.parents(g.path, false)
			x.mkdir(g)
		}
	}
	// First what gets a file of its own, and then what is written in place.
	byFile := filesOf(goals)
	fates := make([]fate, len(goals))
	for i := range goals {
		var err error
		if fates[i], err = s.fateOf(x.goals, byFile, &goals[i]); err != nil {
			return err
		}
	}
	for i := range goals {
		if len(fates[i].others) > 0 {
			x.write(&goals[i], true)
		}
	}
	linked := map[Path]bool{}
	for i := range goals {
		if len(fates[i].others) > 0 || linked[goals[i].path] {
			continue
		}
		x.write(&goals[i], false)
		for _, o := range fates[i].with {
			linked[o] = true
			x.add(Step{Do: DoLink, Path: o, To: goals[i].path})
		}
	}
	for _, st := range slices.Backward(x.shut) {
		x.add(st)
	}
	x.count()
	return nil
}

type stepper struct {
	s      *Store
	p      *Plan
	goals  map[Path]*goal
	made   map[Path]bool // directories that exist by now
	writes []write
	shut   []Step // of directories that nobody may change afterwards

	mu    sync.Mutex // guards bytes and the plan's read, while lines are counted
	bytes int
}

// write is a step that brings content, whose lines are still to be counted.
type write struct {
	step       int // index in the plan
	want, have state
}

func (x *stepper) add(st Step) {
	st.N = len(x.p.Steps) + 1
	x.p.Steps = append(x.p.Steps, st)
}

// expect describes what must be there when a step is carried out.
func expect(st Step, have state) Step {
	switch {
	case have.absent():
		st.Expect = ExpectAbsent
	case have.regular() && have.blob != Hash{}:
		st.Expect, st.ExpMode = hex.EncodeToString(have.blob[:]), have.mode
	case have.link() && have.target != "":
		h := sha256.Sum256([]byte(have.target))
		st.Expect, st.ExpMode = hex.EncodeToString(h[:]), have.mode
	default:
		st.ExpMode = have.mode
	}
	return st
}

// parents makes the missing directories above a path that no goal makes; with
// now, also those that a goal's own step would make later.
func (x *stepper) parents(p Path, now bool) {
	dir := Path(path.Dir(string(p)))
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
	v, found, err := x.s.Current(dir)
	if g == nil && err == nil && found && !v.Deleted() {
		return
	}
	if g != nil || err == nil && found || x.gone(dir) {
		x.parents(dir, now)
		x.add(Step{Do: DoMkdir, Path: dir, Mode: 0o40755})
	}
	x.made[dir] = true
}

// mkdir makes the directory of a goal.
func (x *stepper) mkdir(g *goal) {
	st := Step{Do: DoMkdir, Path: g.path, Mode: g.want.mode | inAndOut, Expect: ExpectAbsent}
	x.add(st)
	if st.Mode != g.want.mode {
		x.shutLater(g.path, st.Mode, g.want.mode)
	}
	g.have, x.made[g.path] = g.want, true
}

// ready: no ancestor is a file that has to go first.
func ready(goals map[Path]*goal, p Path) bool {
	for i := range len(p) {
		if p[i] == '/' {
			if g := goals[p[:i]]; g != nil && !g.have.absent() && !g.have.dir() {
				return false
			}
		}
	}
	return true
}

// gone: nothing at all is known to live at or below a directory.
func (x *stepper) gone(dir Path) bool {
	empty := true
	x.s.Live(dir, func(Version) error { empty = false; return errStop })
	return empty
}

// renameDirs undoes the rename of a whole directory by one step, if everything
// below it goes back with it.
func (x *stepper) renameDirs(goals []goal) {
	for i := range goals {
		g := &goals[i] // g.path goes away …
		if !g.have.dir() || !g.want.absent() {
			continue
		}
		back := x.s.dirGoesBack(x.goals, g) // … and comes back here
		if back == nil {
			continue
		}
		x.parents(back.path, true)
		x.add(Step{Do: DoRename, Path: g.path, To: back.path, ExpMode: g.have.mode})
		for p, h := range x.goals {
			if p == g.path || inside(p, g.path) {
				if to := x.goals[back.path+p[len(g.path):]]; to != nil {
					to.have, h.have = h.have, state{}
					if to.have.dir() {
						x.made[to.path] = true
					}
				}
			}
		}
	}
}

// dirGoesBack is the goal of the path that a directory came from and can be moved
// back to with all that is in it; nil: none.
func (s *Store) dirGoesBack(goals map[Path]*goal, g *goal) *goal {
	if !g.have.dir() || !g.want.absent() {
		return nil
	}
	v, _, err := s.Current(g.path)
	if err != nil || v.Op != OpRename {
		return nil
	}
	back := goals[v.From]
	if back == nil || !back.have.absent() || !back.want.dir() || !ready(goals, back.path) || !s.allBack(goals, g.path, back.path) {
		return nil
	}
	return back
}

// allBack: every live path below from has a goal to go, and one to come below to.
func (s *Store) allBack(goals map[Path]*goal, from, to Path) bool {
	err := s.Live(from, func(v Version) error {
		g, back := goals[v.Path], goals[to+v.Path[len(from):]]
		if g == nil || back == nil || !g.want.absent() || !back.have.absent() || back.want.absent() {
			return errStop
		}
		return nil
	})
	return err == nil
}

// renameFiles pairs a content that has to go with the same one that has to
// come back.
func (x *stepper) renameFiles(goals []goal) {
	for i := range goals {
		g := &goals[i]
		if g.have.absent() || !g.want.absent() || g.have.dir() {
			continue
		}
		back := x.s.goesBack(x.goals, g)
		if back == nil {
			continue
		}
		x.parents(back.path, true)
		st := expect(Step{Do: DoRename, Path: g.path, To: back.path, Mode: g.want.mode}, g.have)
		if g.have.regular() && g.have.blob == (Hash{}) { // nothing else to know it by
			st.Size, st.Mtime = g.have.size, g.have.mtime
		}
		x.add(st)
		back.have, g.have = g.have, state{}
	}
}

// goesBack is the goal of the path that a file came from and can be moved back to;
// nil: none.
func (s *Store) goesBack(goals map[Path]*goal, g *goal) *goal {
	if g.have.absent() || g.have.dir() || !g.want.absent() {
		return nil
	}
	v, _, err := s.Current(g.path)
	if err != nil || v.Op != OpRename && v.Op != OpExchange {
		return nil
	}
	back := goals[v.From]
	if back == nil || !back.have.absent() || back.want.absent() || !back.want.equal(g.have) || !ready(goals, back.path) ||
		g.have.regular() && g.have.blob == (Hash{}) && g.have.noContent == "" {
		return nil
	}
	return back
}

// removals deletes what must not be there, children before parents.
func (x *stepper) removals(goals []goal) {
	for i := len(goals) - 1; i >= 0; i-- {
		g := &goals[i]
		changes := !g.want.absent() && g.have.kind() != g.want.kind()
		if g.have.absent() || !g.want.absent() && !changes {
			continue
		}
		do := DoDelete
		if g.have.dir() {
			do = DoRmdir
		} else if g.have.regular() && g.have.blob != (Hash{}) {
			x.writes = append(x.writes, write{len(x.p.Steps), state{}, g.have})
		}
		x.add(expect(Step{Do: do, Path: g.path}, g.have))
		g.have = state{}
	}
}

// write brings content, link or mode.
func (x *stepper) write(g *goal, apart bool) {
	w := g.want
	if w.absent() || w.equal(g.have) {
		return
	}
	st := Step{Path: g.path, Mode: w.mode, Mtime: w.mtime, Size: w.size, Apart: apart}
	switch {
	case w.sameContent(g.have) && !apart:
		if st.Do, st.Mtime = DoChmod, 0; w.dir() && closed(w.mode) {
			x.shutLater(g.path, g.have.mode, w.mode)
			return
		}
	case w.link():
		st.Do, st.Target = DoSymlink, w.target
		x.parents(g.path, false)
	case w.regular() && !x.s.has(x.p, w.blob):
		x.p.Lost = append(x.p.Lost, Conflict{Path: g.path, Why: "the content is not kept, and it cannot be moved back"})
		return
	case w.regular():
		st.Do, st.Blob = DoWrite, w.blob
		x.parents(g.path, false)
		x.writes = append(x.writes, write{len(x.p.Steps), w, g.have})
	default:
		x.p.Lost = append(x.p.Lost, Conflict{Path: g.path, Why: "devices, sockets and pipes are not brought back"})
		return
	}
	x.add(expect(st, g.have))
}

// count fills in the lines that each write or deletion adds and removes, for the
// diffstat.
// Each needs its contents unpacked, so all processors share the work, in the
// order in which they lie in the store: it was a third of the time of planning
// to bring 10,000 files back.
func (x *stepper) count() {
	const portion = 64
	slices.SortFunc(x.writes, func(a, b write) int {
		return comparePlaces(x.p.kept[a.want.blob], x.p.kept[b.want.blob])
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
					st := &x.p.Steps[w.step]
					st.Added, st.Removed = x.lines(w)
				}
			}
		})
	}
	wg.Wait()
}

// lines are zero for what is binary, too large or not to be had.
func (x *stepper) lines(w write) (added, removed int) {
	want, ok := x.p.merged[w.want.blob]
	if !ok && w.want.regular() {
		var err error
		if want, err = x.s.Content(w.want.blob); err != nil {
			return 0, 0
		}
		x.keep(w.want.blob, want)
	}
	var have []byte
	if w.have.regular() && w.have.blob != (Hash{}) {
		have, _ = x.s.Content(w.have.blob)
	}
	if isBinary(want) || isBinary(have) || len(want)+len(have) > 4<<20 {
		return 0, 0
	}
	switch {
	case len(have) == 0:
		return diff.Count(want), 0
	case len(want) == 0:
		return 0, diff.Count(have)
	}
	sc := diff.Compare(have, want)
	return sc.Added(), sc.Removed()
}

// keep leaves a content to who carries the plan out.
func (x *stepper) keep(h Hash, content []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.p.read == nil {
		x.p.read = map[Hash][]byte{}
	}
	if _, ok := x.p.read[h]; !ok && x.bytes+len(content) <= readMost {
		x.p.read[h] = content
		x.bytes += len(content)
	}
}

// isBinary is git's test: a NUL among the first 8,000 bytes.
func isBinary(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
}
