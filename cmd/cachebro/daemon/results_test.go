package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cachebro/scripts/testkit/redistest"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/memo/results"
	"cachebro/store/wire"
)

type toolCounts struct {
	Tools  map[string]results.Counts
	Stores map[string]int64
}

func countsOf(p *project, c *wire.Client) (n toolCounts) {
	p.t.Helper()
	st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{})
	if err := json.Unmarshal(st.Results.Stats, &n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// indexed waits for the index, because an answer without the index says so and is not cached.
func indexed(p *project, c *wire.Client) {
	p.t.Helper()
	eventually(p.t, "the index is ready", func() bool { return exact(p, c, "warm", "").Warning == "" })
}

// quiet waits until everything spooled is in the log and no scan is running. A search before that
// waits only briefly, and its answer is not cached.
func quiet(p *project, c *wire.Client) {
	p.t.Helper()
	eventually(p.t, "the log is caught up", func() bool {
		st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{})
		return st.Store.Lag == 0 && st.Baseline.Done && !st.Baseline.Running
	})
}

func exact(p *project, c *wire.Client, pattern, path string) wire.SearchAnswer {
	p.t.Helper()
	quiet(p, c)
	return ask[wire.SearchAnswer](p, c, wire.MSearch, wire.SearchQuery{Pattern: pattern, Mode: wire.SearchExact, Path: []byte(path), Limit: 1000})
}

func linesOf(a wire.SearchAnswer) (out []string) {
	for _, h := range a.Hits {
		out = append(out, fmt.Sprintf("%s:%d:%s", h.Path, h.Line, h.Text))
	}
	return out
}

// A repeated search is computed once, until a file in its scope changes. If an earlier state
// returns, its answer is found again.
func TestSearchAnswersAreKept(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	p.through(event.OpWrite, "src/a.go", "package a // needle\n", nil)
	p.through(event.OpWrite, "doc/b.md", "a needle here\n", nil)
	indexed(p, c)
	base := countsOf(p, c).Tools["search"].Hits
	step := func(what, pattern, path string, want, hits int64) {
		t.Helper()
		if got := exact(p, c, pattern, path); got.Lines != int(want) {
			t.Fatalf("%s: %v", what, linesOf(got))
		}
		if n := countsOf(p, c).Tools["search"]; n.Hits-base != hits {
			t.Fatalf("%s: %+v, want %d hits", what, n, hits)
		}
	}
	step("first", "needle", "", 2, 0)
	step("again", "needle", "", 2, 1)
	step("below a directory", "needle", "src", 1, 1)
	step("and again", "needle", "src", 1, 2)
	p.through(event.OpWrite, "doc/b.md", "nothing\n", nil)
	step("a file changed", "needle", "", 1, 2)
	step("outside of the directory", "needle", "src", 1, 3)
	p.through(event.OpWrite, "doc/b.md", "a needle here\n", nil)
	step("there and back", "needle", "", 2, 4)
	if err := os.Rename(p.root+"/doc/b.md", p.root+"/src/b.md"); err != nil {
		t.Fatal(err)
	}
	p.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpRename, Path: "doc/b.md", Path2: "src/b.md", Stat: p.statOf("src/b.md")})
	step("moved into the directory", "needle", "src", 2, 4)
	// A file is being written, so its content may change at any moment.
	p.append(&spool.Record{Kind: spool.KindDirty, Time: now(), Path: "src/a.go", Node: 99})
	p.write("src/a.go", "needle\nneedle\n")
	step("half-written", "needle", "src", 3, 4)
	p.write("src/a.go", "needle\nneedle\nneedle\n")
	step("and on", "needle", "src", 4, 4)
	p.closed(event.OpWrite, "src/a.go", []byte("needle\nneedle\nneedle\n"), func(r *spool.Record) { r.Node = 99; r.Stat = p.statOf("src/a.go") })
	step("closed", "needle", "src", 4, 4)
	step("closed, again", "needle", "src", 4, 5)
	// The same file has another name.
	if err := os.Link(p.root+"/src/a.go", p.root+"/doc/a.go"); err != nil {
		t.Fatal(err)
	}
	p.append(&spool.Record{Kind: spool.KindVersion, Time: now(), Op: event.OpLink, Path: "src/a.go", Path2: "doc/a.go", Stat: p.statOf("doc/a.go")})
	step("linked", "needle", "doc", 3, 5)
	step("linked, again", "needle", "doc", 3, 6)
	p.append(&spool.Record{Kind: spool.KindDirty, Time: now(), Path: "src/a.go", Node: 99, Stat: p.statOf("src/a.go")})
	p.write("src/a.go", "needle\nneedle\n")
	step("half-written under its other name", "needle", "doc", 2, 6)
}

// Whatever is written, a cached answer agrees with the files.
func TestKeptSearchEqualsFresh(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	seed := uint64(1)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{"alpha", "beta", "gamma"}
	names := []string{"a.txt", "d/b.txt", "d/e/c.txt", "d/e/f.txt", "g/h.txt"}
	now := map[string]string{"z": "warm\n"}
	p.through(event.OpWrite, "z", now["z"], nil)
	indexed(p, c)
	for step := range 150 {
		name := names[r.IntN(len(names))]
		switch r.IntN(5) {
		case 0, 1:
			text := strings.Repeat(words[r.IntN(3)]+"\n", 1+r.IntN(2))
			now[name] = text
			p.through(event.OpWrite, name, text, nil)
		case 2:
			if _, ok := now[name]; ok && r.IntN(2) == 0 {
				delete(now, name)
				if err := os.Remove(p.root + "/" + name); err != nil {
					t.Fatal(err)
				}
				p.append(&spool.Record{Kind: spool.KindVersion, Time: 1, Op: event.OpUnlink, Path: name, LastName: true, Stat: event.Stat{Mode: 0o100644}})
			}
		}
		word, scope := words[r.IntN(3)], []string{"", "d", "d/e", "g", "a.txt"}[r.IntN(5)]
		want := 0
		for name, text := range now {
			if scope == "" || name == scope || strings.HasPrefix(name, scope+"/") {
				want += strings.Count(text, word)
			}
		}
		if got := exact(p, c, word, scope); got.Lines != want {
			t.Fatalf("seed %d, step %d: %q in %q: %v, want %d lines", seed, step, word, scope, linesOf(got), want)
		}
	}
	n := countsOf(p, c).Tools["search"]
	if n.Hits < 15 || n.Misses < 15 {
		t.Errorf("seed %d: too few of a kind to show anything: %+v", seed, n)
	}
	t.Logf("%+v", n)
}

// 1,000 requests for the same search at the same time are computed once.
func TestManySearchesComputeOnce(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	p.through(event.OpWrite, "a.txt", "needle\n", nil)
	c := p.dial("cli")
	indexed(p, c)
	before := countsOf(p, c).Tools["search"]
	var wg sync.WaitGroup
	for range 20 {
		c := p.dial("cli")
		wg.Go(func() {
			for range 50 {
				a, err := wire.Call[wire.SearchAnswer](context.Background(), c, wire.MSearch, wire.SearchQuery{Pattern: "needle", Mode: wire.SearchExact})
				if err != nil || a.Lines != 1 {
					t.Error(a, err)
				}
			}
		})
	}
	wg.Wait()
	if n := countsOf(p, c).Tools["search"]; n.Misses-before.Misses != 1 || n.Hits+n.Joined-before.Hits-before.Joined != 999 {
		t.Errorf("%+v", n)
	}
}

// Two daemons, each with its own clone, use each other's answers.
func TestTwoClonesShareResults(t *testing.T) {
	s, err := redistest.Start(t.TempDir())
	if errors.Is(err, redistest.ErrNone) && os.Getenv("CACHEBRO_NEED_REDIS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	ps := []*project{newProject(t), newProject(t)}
	var cs []*wire.Client
	for _, p := range ps {
		p.opt.Results = results.Settings{Redis: s.URL()}
		p.start()
		p.attach()
		p.through(event.OpWrite, "src/a.go", "package a // needle\n", nil)
		p.through(event.OpWrite, "go.mod", "module a\n", nil)
		cs = append(cs, p.dial("cli"))
		indexed(p, cs[len(cs)-1])
	}
	want := linesOf(exact(ps[0], cs[0], "needle", ""))
	t.Cleanup(func() {
		for i, p := range ps {
			if !t.Failed() {
				return
			}
			t.Logf("%+v", countsOf(p, cs[i]))
			for _, v := range p.log(cs[i], wire.LogQuery{Baselines: true}) {
				t.Logf("%d %s %s %s %q %d %o", v.Seq, v.Op, v.Path, v.Hash, v.NoContent, v.Size, v.Mode)
			}
		}
	})
	eventually(t, "the other clone has it", func() bool {
		before := countsOf(ps[1], cs[1]).Stores["redis"]
		got := linesOf(exact(ps[1], cs[1], "needle", ""))
		if !reflect.DeepEqual(got, want) {
			t.Fatal(got, want)
		}
		if countsOf(ps[1], cs[1]).Stores["redis"] == before+1 {
			return true
		}
		// A miss is computed and cached, which starts the count again.
		for _, c := range cs {
			if _, err := c.Call(context.Background(), wire.MResults, wire.ResultsRequest{Do: "clear"}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		exact(ps[0], cs[0], "needle", "")
		return false
	})
	// A clone with other contents does not get the answer.
	ps[1].through(event.OpWrite, "src/b.go", "package b // needle\n", nil)
	if got := linesOf(exact(ps[1], cs[1], "needle", "")); len(got) != 2 {
		t.Fatal(got)
	}
	s.Stop()
	for i, p := range ps {
		p.through(event.OpWrite, "src/c.go", "package c // needle\n", nil)
		if got := linesOf(exact(p, cs[i], "needle", "")); len(got) != 2+i {
			t.Fatal(i, got)
		}
	}
	st := ask[wire.Status](ps[0], cs[0], wire.MStatus, wire.Empty{})
	if !strings.Contains(st.Results.Text, "has not answered since") || st.Results.Down == "" {
		t.Errorf("status: %+v", st.Results)
	}
}
