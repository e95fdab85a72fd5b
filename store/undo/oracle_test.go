package undo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/keep"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// These flags restrict a longer run by hand: go test ./store/undo -run Oracle -rapid.checks=100000.
var (
	oracleOps    = flag.String("oracle.ops", "create,write,again,mkdir,symlink,unlink,rmdir,chmod,save,rename,over,link,exchange", "operations of TestOracle")
	oraclePlans  = flag.String("oracle.plans", "undo,undo of one,redo,restore", "plans of TestOracle")
	oracleStrict = flag.Bool("oracle.strict", false, "a plan may not leave alone more than the oracle does")
)

// life is a tree with its history in a store and in the oracle.
type life struct {
	*rapid.T
	world
	dir   string // of the store
	o     *storetest.Oracle
	log   []string
	pid   uint32
	seqs  []uint64 // the store's newest version after each of the oracle's operations
	plans []string
	gone  bool // contents were pruned or purged
	ended bool // the planner and the oracle have decided differently
}

var (
	actors   = []store.SessionID{"A", "B"}
	planners = []store.SessionID{"A", "B", ""} // "" is a person
)

func begin(r *rapid.T) *life {
	dir, err := os.MkdirTemp("", "cachebro-oracle-")
	if err != nil {
		r.Fatal(err)
	}
	l := &life{T: r, world: world{nil, storetest.NewTree()}, dir: dir, o: storetest.NewOracle()}
	l.tr.Bare = rapid.Bool().Draw(r, "bare")
	l.open()
	r.Cleanup(func() { l.s.Close(); os.RemoveAll(dir) })
	return l
}

func (l *life) open() {
	var err error
	if l.s, err = store.Open(l.dir, storetest.Options()); err != nil {
		l.Fatal(err)
	}
}

func (l *life) free() (store.Path, bool) {
	dirs := append([]store.Path{""}, l.tr.Paths(func(_ store.Path, f *storetest.File) bool { return f.Mode&unix.S_IFMT == unix.S_IFDIR })...)
	p := rapid.SampledFrom(dirs).Draw(l.T, "dir")
	if p != "" {
		p += "/"
	}
	p += store.Path(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(l.T, "name"))
	return p, l.tr.Files[p] == nil && strings.Count(string(p), "/") < 4
}

func (l *life) one(ok func(*storetest.File) bool) (store.Path, bool) {
	all := l.tr.Paths(func(_ store.Path, f *storetest.File) bool { return ok(f) })
	if len(all) == 0 {
		return "", false
	}
	return rapid.SampledFrom(all).Draw(l.T, "path"), true
}

func kind(k uint32) func(*storetest.File) bool {
	return func(f *storetest.File) bool { return f.Mode&unix.S_IFMT == k }
}

// act performs one random operation as a session.
func (l *life) act(by store.SessionID, ops []string) {
	l.pid++
	l.tr.Actor = store.Actor{PID: l.pid, Start: uint64(l.pid), Comm: string(by), Session: by, ToolCall: fmt.Sprint("t", l.o.Now()+1)}
	var cs []store.Change
	regular, dir := kind(unix.S_IFREG), kind(unix.S_IFDIR)
	text, did := fmt.Sprint(l.pid), ""
	switch what := rapid.SampledFrom(ops).Draw(l.T, "what"); what {
	case "create":
		if p, ok := l.free(); ok {
			cs, did = append(cs, l.tr.Write(p, text)), fmt.Sprintf("create %s %q", p, text)
		}
	case "mkdir":
		if p, ok := l.free(); ok {
			cs, did = append(cs, l.tr.Mkdir(p, storetest.DirMode)), fmt.Sprintf("mkdir %s", p)
		}
	case "symlink":
		if p, ok := l.free(); ok {
			cs, did = append(cs, l.tr.Symlink(p, "to"+text)), fmt.Sprintf("symlink %s", p)
		}
	case "write", "again":
		if what == "again" {
			text = fmt.Sprint(rapid.Uint32Range(1, l.pid).Draw(l.T, "text"))
		}
		if p, ok := l.one(regular); ok {
			cs, did = append(cs, l.tr.Write(p, text)), fmt.Sprintf("write %s %q", p, text)
		}
	case "chmod":
		if p, ok := l.one(func(f *storetest.File) bool { return !kind(unix.S_IFLNK)(f) }); ok {
			mode := rapid.SampledFrom([]uint32{0o700, 0o750, 0o755}).Draw(l.T, "mode")
			cs, did = append(cs, l.tr.Chmod(p, mode)), fmt.Sprintf("chmod %s %o", p, mode)
		}
	case "unlink":
		if p, ok := l.one(func(f *storetest.File) bool { return !dir(f) }); ok {
			cs, did = append(cs, l.tr.Remove(p)), fmt.Sprintf("unlink %s", p)
		}
	case "rmdir":
		if p, ok := l.one(dir); ok && l.tr.Empty(p) {
			cs, did = append(cs, l.tr.Remove(p)), fmt.Sprintf("rmdir %s", p)
		}
	case "rename":
		p, ok := l.one(func(*storetest.File) bool { return true })
		if to, free := l.free(); ok && free && !to.Inside(p) {
			cs, did = append(cs, l.tr.Rename(p, to)), fmt.Sprintf("mv %s %s", p, to)
		}
	case "over":
		p, ok := l.one(regular)
		if to, found := l.one(regular); ok && found && l.tr.Files[p] != l.tr.Files[to] {
			cs, did = append(cs, l.tr.Rename(p, to)), fmt.Sprintf("mv -f %s %s", p, to)
		}
	case "exchange":
		a, ok := l.one(func(*storetest.File) bool { return true })
		if b, found := l.one(func(*storetest.File) bool { return true }); ok && found && !a.Inside(b) && !b.Inside(a) && l.tr.Files[a] != l.tr.Files[b] {
			cs, did = append(cs, l.tr.Exchange(a, b)), fmt.Sprintf("exchange %s %s", a, b)
		}
	case "link":
		p, ok := l.one(regular)
		if to, free := l.free(); ok && free {
			cs, did = append(cs, l.tr.Link(p, to)), fmt.Sprintf("ln %s %s", p, to)
		}
	case "save":
		if p, ok := l.one(regular); ok {
			old := l.tr.Files[p]
			if l.tr.Links(old) > 1 {
				return
			}
			cs = append(cs, l.tr.Write(p+".tmp", text))
			l.o.SameFile(old.Ino, l.tr.Files[p+".tmp"].Ino)
			if l.tr.Files[p+".tmp"].Mode != old.Mode {
				cs = append(cs, l.tr.Chmod(p+".tmp", old.Mode&0o7777))
			}
			cs, did = append(cs, l.tr.Rename(p+".tmp", p)), fmt.Sprintf("save %s %q", p, text)
		}
	}
	if did == "" {
		return
	}
	l.log = append(l.log, fmt.Sprintf("%d %s: %s", l.o.Now()+1, by, did))
	l.apply(l.T, cs...)
	l.o.Observe(l.tr, by, "")
	l.seqs = append(l.seqs, l.s.Seq())
}

func (l *life) fail(format string, args ...any) {
	l.Helper()
	l.Fatalf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(l.log, "\n  "))
}

func shape(m map[store.Path]string) (out string) {
	for _, p := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf("  %q %s\n", string(p), m[p])
	}
	return out
}

// plan compares a draft of the planner with the oracle's decision. It carries the draft out, and
// compares the trees and whether conflicts are listed.
func (l *life) plan(what string, want *storetest.Outcome, d *Draft, err error) {
	by := rapid.SampledFrom(planners).Draw(l.T, "who plans")
	l.log = append(l.log, fmt.Sprintf("%d plan %d, by %q: %s", l.o.Now()+1, len(l.plans)+1, by, what))
	if errors.Is(err, store.ErrNotFound) {
		if len(want.Goals) > 0 {
			l.fail("the planner finds nothing to do, the oracle %v", want.Goals)
		}
		return
	}
	if err != nil {
		l.fail("%v", err)
	}
	before, expected := l.tr.Shape(), l.o.Tree(l.o.After(want))
	l.carryAs(l.T, d, store.Actor{PID: 99, Comm: "cachebro", Session: by, ToolCall: fmt.Sprint("t", l.o.Now()+1)})
	got, named := l.tr.Shape(), len(d.Conflicts)+len(d.Lost) > 0
	if maps.Equal(got, expected) && named == (len(want.Conflicts) > 0) {
		for _, c := range d.Cells {
			if v, err := l.s.Version(c.Was); err == nil && c.Kind == store.CellContent {
				l.o.TimeOnly(want, v.Stat.Ino)
			}
		}
		l.o.Carry(want, d.ID, by, l.tr)
		l.plans = append(l.plans, d.ID)
		l.seqs = append(l.seqs, l.s.Seq())
		return
	}
	if named && !*oracleStrict && cautious(append(d.Conflicts, d.Lost...), before, expected, got) {
		l.ended = true
		return
	}
	l.fail("the tree is\n%swant\n%swas\n%snamed %v, the oracle %v\nsteps %+v", shape(got), shape(expected), shape(before), names(append(d.Conflicts, d.Lost...)), want.Conflicts, d.Steps)
}

func names(cs []store.Conflict) (out []string) {
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%s: %s", c.Path, c.Why))
	}
	return out
}

// cautious reports whether a plan differs from the oracle only in that it left more paths alone,
// and listed them.
func cautious(named []store.Conflict, before, want, got map[store.Path]string) bool {
	leftAlone := func(p store.Path) bool {
		return slices.ContainsFunc(named, func(c store.Conflict) bool { return p.Inside(c.Path) || c.Path.Inside(p) })
	}
	want = without(want, func(p store.Path) bool { return got[p] == "" && leftAlone(p) })
	all := maps.Clone(got)
	maps.Copy(all, want)
	for p := range all {
		if got[p] != want[p] && got[p] != before[p] && !leftAlone(p) {
			return false
		}
	}
	return true
}

// without returns what Tree.Shape would return for the tree without the paths that some selects.
func without(shape map[store.Path]string, some func(store.Path) bool) map[store.Path]string {
	out, first := map[store.Path]string{}, map[string]store.Path{}
	for _, p := range slices.Sorted(maps.Keys(shape)) {
		if some(p) {
			continue
		}
		what, file, _ := strings.Cut(shape[p], ", a name of ")
		if first[file] == "" {
			first[file] = p
		}
		out[p] = fmt.Sprintf("%s, a name of %q", what, string(first[file]))
	}
	return out
}

// TestOracle: whatever several actors have done, undo, redo and restore do what the oracle decides.
// The planner may leave more paths alone if it lists them.
func TestOracle(t *testing.T) {
	ops, plans := strings.Split(*oracleOps, ","), strings.Split(*oraclePlans, ",")
	rapid.Check(t, func(r *rapid.T) {
		l := begin(r)
		for n := rapid.IntRange(1, 4).Draw(r, "rounds"); n > 0 && !l.ended; n-- {
			for range rapid.IntRange(1, 10).Draw(r, "acts") {
				l.act(rapid.SampledFrom(actors).Draw(r, "who"), ops)
			}
			if l.o.Now() > 0 {
				l.take(rapid.SampledFrom(plans).Draw(r, "plan"))
			}
		}
		if !l.ended {
			l.past()
		}
	})
}

// take makes a plan, and has it carried out.
func (l *life) take(kind string) {
	pl := Planner{Store: l.s}
	switch kind {
	case "undo":
		want := l.o.Undo(func(f storetest.Fact) bool { return f.Session == "A" })
		d, err := pl.Undo(Query{Select: store.Filter{Session: "A"}})
		l.plan("undo of A", want, d, err)
	case "undo of one":
		n := rapid.IntRange(1, l.o.Now()).Draw(l.T, "call")
		want := l.o.Undo(func(f storetest.Fact) bool { return f.Op == n && f.Session != "" })
		d, err := pl.Undo(Query{Select: store.Filter{ToolCall: fmt.Sprint("t", n)}})
		l.plan(fmt.Sprint("undo of operation ", n), want, d, err)
	case "redo":
		if len(l.plans) == 0 {
			return
		}
		id := rapid.SampledFrom(l.plans).Draw(l.T, "plan")
		want := l.o.UndoPlan(id)
		d, err := pl.Redo(id, false, false)
		l.plan(fmt.Sprint("undo of plan ", slices.Index(l.plans, id)+1), want, d, err)
	case "restore":
		n := rapid.IntRange(0, l.o.Now()).Draw(l.T, "moment")
		seq := uint64(0)
		if n > 0 {
			seq = l.seqs[n-1]
		}
		d, err := pl.Restore(nil, seq)
		l.plan(fmt.Sprint("restore to ", n), l.o.Restore(n), d, err)
	}
}

// TestTreesOfThePast: after random operations of every kind, the store's tree of each moment equals
// the oracle's, and a restore reaches it. Contents that were pruned or purged are reported as such.
func TestTreesOfThePast(t *testing.T) {
	all := []string{"create", "write", "again", "mkdir", "symlink", "unlink", "rmdir", "rename", "over", "exchange", "link", "chmod", "save"}
	rapid.Check(t, func(r *rapid.T) {
		l := begin(r)
		for n := rapid.IntRange(1, 4).Draw(r, "rounds"); n > 0 && !l.ended; n-- {
			for range rapid.IntRange(1, 15).Draw(r, "acts") {
				l.act(rapid.SampledFrom(actors).Draw(r, "who"), all)
			}
			switch what := rapid.SampledFrom([]string{"restore", "reopen", "prune", "purge"}).Draw(r, "then"); {
			case l.o.Now() == 0:
			case what == "reopen":
				l.s.Close()
				l.open()
			case what == "prune":
				l.gone = true
				if _, err := keep.New(l.s, nil, nil).Prune(context.Background(), 1, ""); err != nil {
					r.Fatal(err)
				}
			case what == "purge":
				l.gone = true
				if p, ok := l.one(kind(unix.S_IFREG)); ok {
					if _, err := keep.New(l.s, nil, nil).Purge(context.Background(), p); err != nil && !errors.Is(err, store.ErrNotFound) {
						r.Fatal(err)
					}
				}
			case !l.gone:
				l.take(what)
			}
		}
		if !l.ended {
			l.past()
		}
	})
}

func (l *life) past() {
	for n, seq := range l.seqs {
		want := l.o.Tree(l.o.Cells(n + 1))
		for p := range want {
			want[p], _, _ = strings.Cut(want[p], ", a name of ")
		}
		got := map[store.Path]string{}
		err := l.s.ViewUpTo(seq, func(v *store.View) error {
			return v.Live("", func(v store.Version) error {
				data := v.Target
				if l.gone && (v.NoContent == store.NoContentPurged || v.NoContent == "pruned") {
					got[v.Path] = want[v.Path]
					return nil
				}
				if stateOf(v).regular() {
					b, err := l.s.Content(v.Blob)
					if err != nil {
						return err
					}
					data = string(b)
				}
				got[v.Path] = fmt.Sprintf("%o %q", v.Stat.Mode, data)
				return nil
			})
		})
		if err != nil || !maps.Equal(got, want) {
			l.fail("%v: after operation %d there was\n%swant\n%s", err, n+1, shape(got), shape(want))
		}
		listed := map[store.Path]string{}
		err = l.list("", seq, listed)
		if err != nil || !l.gone && !maps.Equal(listed, want) {
			l.fail("%v: after operation %d, as listed, there was\n%swant\n%s", err, n+1, shape(listed), shape(want))
		}
	}
}

// list adds to all what Planner.List returns for a moment.
func (l *life) list(dir store.Path, seq uint64, all map[store.Path]string) error {
	in, found, err := Planner{Store: l.s}.List(dir, seq)
	if err != nil || !found {
		return errors.Join(err, fmt.Errorf("%q was found: %v", dir, found))
	}
	for _, e := range in {
		data := e.Target
		if e.Blob != (store.Hash{}) {
			b, err := l.s.Content(e.Blob)
			if err != nil && !l.gone {
				return err
			}
			data = string(b)
		}
		all[e.Path] = fmt.Sprintf("%o %q", e.Mode, data)
		if e.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := l.list(e.Path, seq, all); err != nil {
				return err
			}
		}
	}
	return nil
}
