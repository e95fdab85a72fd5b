package lost_test

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/spool"
	"cachebro/store/readers"
)

var (
	long  = flag.Int("long", 4, "length of all interleavings on one file")
	seeds = flag.Int("seeds", 150, "random interleavings")
)

// bench is a store with two sessions and a person. They work on files of sorted, numbered lines, so
// that every set of lines has exactly one content. bench knows what each session believes about
// each file, and therefore which writes lose something.
type bench struct {
	t     *testing.T
	store *store.Store
	shown *readers.Tracker
	lost  *lost.Service
	clock int64
	id    int // the last number of a line, tool call or process

	files   map[store.Path]set
	undo    map[store.Path][]set // the content that a person's undo restores
	beliefs map[belief]set
	remover map[belief]map[int]bool // lines that others took out since the belief, by session and file
	added   map[belief]map[int]bool // lines that others put in since
	mine    map[belief]map[int]bool // lines that the session put in since, by commands
	want    map[uint64]bool
	done    []string
}

type set map[int]bool

type belief struct {
	who  string
	path store.Path
}

func (s set) with(more ...int) set {
	out := set{}
	for l := range s {
		out[l] = true
	}
	for _, l := range more {
		out[l] = true
	}
	return out
}

func (s set) sorted() []int { return slices.Sorted(maps.Keys(s)) }

func (s set) text() []byte {
	var b strings.Builder
	for _, l := range s.sorted() {
		fmt.Fprintf(&b, "the line %d\n", l)
	}
	return []byte(b.String())
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: storetest.Fresh(t), clock: 1_700_000_000_000_000_000}
	now := func() time.Time { return time.Unix(0, b.clock) }
	var err error
	if b.shown, err = readers.New(b.store, nil, readers.Options{Now: now, MaxSessions: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if b.lost, err = lost.Open(b.store, b.shown, slog.New(slog.DiscardHandler), func() time.Time { return now().Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	return b
}

// begin resets everything except the store, for the next sequence of acts.
func (b *bench) begin() {
	b.files, b.undo, b.beliefs, b.want, b.done = map[store.Path]set{}, map[store.Path][]set{}, map[belief]set{}, map[uint64]bool{}, nil
	b.mine = map[belief]map[int]bool{}
	b.remover, b.added = map[belief]map[int]bool{}, map[belief]map[int]bool{}
}

func (b *bench) next() int { b.id++; b.clock += int64(time.Millisecond); return b.id }

// put records the new content that an actor gave a file.
func (b *bench) put(p store.Path, is set, actor store.Actor, plan string) uint64 {
	b.t.Helper()
	n := b.next()
	text := is.text()
	c := storetest.Closed(store.OpWrite, p, string(text))
	c.Time, c.Actor, c.Plan = b.clock, actor, plan
	c.Stat.Ino, c.Stat.Mtime = uint64(n), b.clock
	vs, err := b.store.Apply(context.Background(), []store.Change{c}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lost.Examine(vs)
	who := string(actor.Session)
	if mine := b.mine[belief{who, p}]; mine != nil {
		for l := range is {
			if !b.files[p][l] {
				mine[l] = true
			}
		}
	}
	for k := range b.beliefs {
		if k.path != p || k.who == who {
			continue
		}
		for l := range is {
			if !b.files[p][l] && b.beliefs[k][l] {
				delete(b.remover[k], l)
			} else if !b.files[p][l] && !b.mine[k][l] {
				b.added[k][l] = true
			}
		}
		for l := range b.files[p] {
			if !is[l] && b.beliefs[k][l] {
				b.remover[k][l] = true
			} else if !is[l] {
				delete(b.added[k], l)
			}
		}
	}
	b.files[p] = is
	if len(vs) == 0 {
		return 0
	}
	return vs[0].Seq
}

// believes records what a session now believes about the content of a file.
func (b *bench) believes(who string, p store.Path, is set) {
	k := belief{who, p}
	b.beliefs[k], b.remover[k], b.added[k], b.mine[k] = is, map[int]bool{}, map[int]bool{}, map[int]bool{}
}

// acts are the possible actions. Each returns whether it could be done.
var acts = map[string]func(b *bench, who string, p store.Path) bool{
	"read": func(b *bench, who string, p store.Path) bool {
		is, ok := b.files[p]
		if !ok {
			return false
		}
		b.next()
		text := is.text()
		if _, err := b.shown.Decide(context.Background(), readers.Request{
			Reader: store.Reader{Session: store.SessionID(who)}, Known: true, Path: p, Hash: sha256.Sum256(text), Content: func() ([]byte, error) { return text, nil }, Tool: "Read",
		}); err != nil {
			b.t.Fatal(err)
		}
		b.believes(who, p, is)
		return true
	},
	// The session's tool writes the whole file as the session believes it to be. The hook's report
	// of this write may arrive before the version.
	"write":      func(b *bench, who string, p store.Path) bool { return b.overwrite(who, p, "Write", 0, false) },
	"write-late": func(b *bench, who string, p store.Path) bool { return b.overwrite(who, p, "Write", 0, true) },
	"less":       func(b *bench, who string, p store.Path) bool { return b.overwrite(who, p, "Write", 1, false) },
	"shell":      func(b *bench, who string, p store.Path) bool { return b.overwrite(who, p, "Bash", 0, false) },
	// A command changes the content that it reads. The report of its reads arrives before or after.
	"sed": func(b *bench, who string, p store.Path) bool {
		if len(b.files[p]) == 0 {
			return false
		}
		n := b.next()
		is := set{n: true}
		for i, l := range b.files[p].sorted() {
			if i > 0 { // and removes a line
				is[l] = true
			}
		}
		a := store.Actor{Session: store.SessionID(who), Tool: "Bash", ToolCall: fmt.Sprint("T", n), Comm: "sed", PID: uint32(n), Start: 1}
		rec := &spool.Record{Kind: spool.KindReads, PID: uint32(n), Start: 1, Time: b.clock, Paths: []string{string(p)}}
		if n%2 == 0 {
			b.lost.RecordReads(rec)
		}
		b.put(p, is, a, "")
		if n%2 == 1 {
			b.lost.RecordReads(rec)
		}
		return true
	},
	// The formatter of a hook belongs to the session, but not to a tool call.
	"format": func(b *bench, who string, p store.Path) bool {
		if len(b.files[p]) == 0 {
			return false
		}
		n := b.next()
		b.put(p, b.files[p].with(n), store.Actor{Session: store.SessionID(who), Comm: "fmt", PID: uint32(n), Start: 1}, "")
		return true
	},
	// With the next prompt, the session receives the diffs of what others changed.
	"prompt": func(b *bench, who string, p store.Path) bool {
		if _, ok := b.beliefs[belief{who, p}]; !ok {
			return false
		}
		b.next()
		b.shown.NoteReported(store.Reader{Session: store.SessionID(who)}, p, sha256.Sum256(b.files[p].text()), true)
		b.believes(who, p, b.files[p])
		return true
	},
	"person": func(b *bench, _ string, p store.Path) bool {
		b.undo[p] = append(b.undo[p], b.files[p])
		b.put(p, b.files[p].with(b.next()), store.Actor{Comm: "vi", PID: 9}, "")
		return true
	},
	"person-less": func(b *bench, _ string, p store.Path) bool {
		if len(b.files[p]) < 2 {
			return false
		}
		is, first := set{}, true
		for _, l := range slices.Backward(b.files[p].sorted()) {
			if !first {
				is[l] = true
			}
			first = false
		}
		b.undo[p] = append(b.undo[p], b.files[p])
		b.put(p, is, store.Actor{Comm: "vi", PID: 9}, "")
		return true
	},
	"undo": func(b *bench, _ string, p store.Path) bool {
		n := len(b.undo[p])
		if n == 0 || b.undo[p][n-1] == nil {
			return false
		}
		was := b.undo[p][n-1]
		b.undo[p] = b.undo[p][:n-1]
		b.put(p, was, store.Actor{Comm: "cachebro", PID: 8}, "undo-1")
		return true
	},
}

// overwrite replaces a file by the content that the session believes it has, with one line added
// and some lines removed. less is the number of removed lines.
func (b *bench) overwrite(who string, p store.Path, tool string, less int, late bool) bool {
	k := belief{who, p}
	was, ok := b.beliefs[k]
	if !ok {
		return false
	}
	n := b.next()
	is := was.with(n)
	for _, l := range was.sorted() {
		if less > 0 {
			delete(is, l)
			less--
		}
	}
	loses := false
	for l := range b.added[k] {
		loses = loses || b.files[p][l] && !is[l]
	}
	for l := range b.remover[k] {
		loses = loses || !b.files[p][l] && is[l]
	}
	b.undo[p] = append(b.undo[p], b.files[p])
	a := store.Actor{Session: store.SessionID(who), Tool: tool, ToolCall: fmt.Sprint("T", n), Comm: "sh", PID: uint32(n), Start: 1}
	tell := func() {
		if tool != "Write" {
			return
		}
		text := is.text()
		b.next()
		b.next()
		if err := b.shown.OwnEdit(context.Background(), readers.Edit{
			Reader: store.Reader{Session: store.SessionID(who)}, Known: true, Path: p, After: sha256.Sum256(text), New: string(text), Whole: true, Tool: tool,
			Content: func() ([]byte, error) { return text, nil },
		}); err != nil {
			b.t.Fatal(err)
		}
	}
	at := b.clock
	if late {
		tell()
		b.clock, at = at, b.clock // the version has the earlier time
	}
	seq := b.put(p, is, a, "")
	b.clock = max(at, b.clock)
	if !late {
		tell()
	}
	b.believes(who, p, is)
	if loses {
		b.want[seq] = true
	}
	return true
}

// play does the acts in order. It returns false if one of them could not be done.
func (b *bench) play(acts []step) bool {
	b.t.Helper()
	for _, a := range acts {
		if !a.do(b, a.who, a.path) {
			return false
		}
		b.done = append(b.done, a.name+" "+a.who+" "+string(a.path))
	}
	return true
}

type step struct {
	name, who string
	path      store.Path
	do        func(b *bench, who string, p store.Path) bool
}

// check compares the losses that were detected since version after with those of the model.
func (b *bench) check(after uint64) {
	b.t.Helper()
	got := map[uint64]bool{}
	for _, l := range b.lost.All(context.Background(), true) {
		if l.Seq > after {
			got[l.Seq] = true
		}
	}
	for seq := range b.want {
		if !got[seq] {
			b.t.Errorf("version %d lost an update, and is not marked: %s", seq-after, strings.Join(b.done, ", "))
		}
	}
	for seq := range got {
		if !b.want[seq] {
			b.t.Errorf("version %d is marked, and lost nothing: %s", seq-after, strings.Join(b.done, ", "))
		}
	}
}

// TestEveryShortInterleaving tests every order of a few acts of two sessions and a person on one
// file, and of fewer acts on three files.
func TestEveryShortInterleaving(t *testing.T) {
	b := newBench(t)
	n := 0
	each := func(length, files int) {
		var all []step
		for _, who := range []string{"A", "B", ""} {
			for name, do := range acts {
				if (who == "") != (name == "person" || name == "person-less" || name == "undo") || who == "B" && name != "read" && name != "write" || name == "write-late" || files > 1 && (name == "format" || name == "sed" || name == "less" || name == "person-less") {
					continue
				}
				for f := range files {
					all = append(all, step{name, who, store.Path(fmt.Sprint("f", f)), do})
				}
			}
		}
		slices.SortFunc(all, func(x, y step) int { return strings.Compare(x.name+x.who+string(x.path), y.name+y.who+string(y.path)) })
		at := make([]int, length)
		for {
			if last := all[at[length-1]]; last.who == "A" && (last.name == "write" || last.name == "shell" || last.name == "less") {
				n++
				b.begin()
				after := b.store.Seq()
				play := make([]step, length)
				for i, k := range at {
					play[i] = all[k]
					play[i].path = store.Path(fmt.Sprintf("%d/%s", n, play[i].path))
					if play[i].who != "" {
						play[i].who += fmt.Sprint(n)
					}
				}
				for f := range files {
					b.put(store.Path(fmt.Sprintf("%d/f%d", n, f)), set{}.with(b.next(), b.next(), b.next()), store.Actor{Comm: "vi", PID: 9}, "")
				}
				if b.play(play) {
					b.check(after)
				}
			}
			i := length - 1
			for ; i >= 0; i-- {
				if at[i]++; at[i] < len(all) {
					break
				}
				at[i] = 0
			}
			if i < 0 || t.Failed() {
				return
			}
		}
	}
	for length := 1; length <= *long; length++ {
		each(length, 1)
	}
	each(3, 3)
	t.Log(n, "interleavings")
}

// TestRandomInterleavings tests long random sequences of acts on three files.
func TestRandomInterleavings(t *testing.T) {
	b := newBench(t)
	names := slices.Sorted(maps.Keys(acts))
	marked := 0
	for seed := range *seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		b.begin()
		after := b.store.Seq()
		for f := range 3 {
			b.put(store.Path(fmt.Sprintf("%d/f%d", seed, f)), set{}.with(b.next(), b.next(), b.next()), store.Actor{Comm: "vi", PID: 9}, "")
		}
		for range 40 {
			name := names[r.IntN(len(names))]
			who := fmt.Sprint([]string{"A", "B"}[r.IntN(2)], seed)
			if strings.HasPrefix(name, "person") || name == "undo" {
				who = ""
			}
			b.play([]step{{name, who, store.Path(fmt.Sprintf("%d/f%d", seed, r.IntN(3))), acts[name]}})
		}
		b.check(after)
		marked += len(b.want)
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
	t.Log(marked, "lost updates")
}
