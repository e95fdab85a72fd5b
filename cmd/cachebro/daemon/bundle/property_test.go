package bundle

import (
	"context"
	"fmt"
	"testing"

	"cachebro/store"

	"pgregory.net/rapid"
)

// names is a short list, so that files come back, replace each other, and turn into directories.
var names = []string{"go.mod", "a/a.go", "a/b.go", "b/b.go", "b/b_test.go", "main.go", "web/x.ts", "web/y.ts", "web/lib/index.ts", "py/m.py", "py/util.py", "README.md", "docs/a.md", "docs/m.py.md", "cachebro.yml", "a/README.md"}

// texts are the possible contents. Any file may get any of them.
var texts = []string{
	"module example.org/app\n", "module example.org/other\n",
	"// Package a does things. And more.\npackage a\n\nimport \"example.org/app/b\"\n\nfunc F() {}\n",
	"package b\n\nimport (\n\t\"example.org/app/a\"\n\t\"example.org/other/b\"\n)\n\ntype T struct{}\n",
	"import {x} from './y'\nimport z from \"./lib\"\nexport const q = 1\n",
	"from . import util\nimport py.m\n\ndef f():\n    pass\n",
	"# The map\n\nSee a/a.go and `web/`, m.py.\n\n## More\n\nAlso ../b/b.go and y.ts.\n",
	"nodes:\n  g:\n    source: [a/, web/x.ts]\n    summary: One.\n    uses: h\n  h: {source: 'b/*.go'}\n  docs/: {summary: Words.}\ndocs:\n  - {doc: docs/a.md, code: a/}\n",
	"nodes:\n  g: {source: \"**/*.py\", uses: a/}\nbad: 1\n", "nodes: [\n", "", "\x00\x01",
}

var refs = []string{"a/", "a/a.go", "b", "g", "h", "README.md", "./", "docs/", "docs/a.md", "web/x.ts", "web/lib/", "py/m.py", "main.go", "nothing"}

// Three graphs must agree about every node after every change: one that followed the log, one that
// was loaded from its rows, and one that is built from scratch. If a plan has the hash of an
// earlier plan, its text must equal the earlier text.
func TestFollowingIsLikeMakingAnew(t *testing.T) {
	p := newProject(t)
	rapid.Check(t, func(r *rapid.T) {
		// All examples use the same store. Only the files are removed between them.
		live := map[string]bool{}
		for _, n := range names {
			if v, ok, err := p.s.Current(store.Path(n)); err != nil {
				r.Fatal(err)
			} else if ok && !v.Deleted() {
				p.remove(n)
			}
		}
		pairs := NewPairs(nil)
		g := p.graph(pairs, false)
		kept := map[string]string{} // plan's hash: text
		for step := range rapid.IntRange(1, 12).Draw(r, "steps") {
			name := rapid.SampledFrom(names).Draw(r, "name")
			switch op := rapid.IntRange(0, 9).Draw(r, "op"); {
			case op < 6 || !live[name]:
				p.write(name, rapid.SampledFrom(texts).Draw(r, "text"))
				live[name] = true
				pairs.Wrote("s", p.clock, name)
			case op == 6:
				p.remove(name)
				delete(live, name)
			case op == 7:
				to := rapid.SampledFrom(names).Draw(r, "to")
				if to != name {
					p.rename(name, to)
					pairs.Renamed(name, to)
					delete(live, name)
					live[to] = true
				}
			case op == 8:
				p.chmod(name, rapid.SampledFrom([]uint32{0o644, 0o755}).Draw(r, "mode"))
			default:
				pairs.Read("s", p.tick(), name)
			}
			if rapid.IntRange(0, 2).Draw(r, "look") > 0 {
				continue
			}
			anew, back := p.graph(pairs, false), p.graph(pairs, true)
			for _, ref := range refs {
				q := Query{Ref: ref, Depth: 1 + step%3, MaxNodes: 1 + step*3}
				hash, text := bundle(r, g, q)
				_, want := bundle(r, anew, q)
				_, again := bundle(r, back, q)
				if text != want || again != want {
					r.Fatalf("%s after %d steps:\nfollowed\n%s\ntaken back\n%s\nanew\n%s", ref, step, text, again, want)
				}
				key := fmt.Sprint(q, hash)
				if old, ok := kept[key]; ok && old != text {
					r.Fatalf("%s: kept\n%s\nnow\n%s", ref, old, text)
				}
				kept[key] = text
				if a, b := graphText(r, g, q), graphText(r, anew, q); a != b {
					r.Fatalf("graph of %s:\nfollowed\n%s\nanew\n%s", ref, a, b)
				}
			}
			if a, b := graphText(r, g, Query{}), graphText(r, anew, Query{}); a != b {
				r.Fatalf("graph:\nfollowed\n%s\nanew\n%s", a, b)
			}
			if err := g.sound(); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// sound checks that the derived tables agree with the files, and that nothing is left of removed
// files.
func (g *Graph) sound() error {
	if err := g.Follow(context.Background()); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	probes, links := 0, 0
	for _, e := range g.files {
		probes += len(e.probes)
		links += len(e.out)
	}
	for _, who := range g.watch {
		probes -= len(who)
	}
	for _, who := range g.in {
		links -= len(who)
	}
	if probes != 0 || links != 0 {
		return fmt.Errorf("%d probes and %d links are not where they should be", probes, links)
	}
	return nil
}
