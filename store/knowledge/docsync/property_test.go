package docsync

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// model computes the expected pairs in the simplest way. It holds, for each pair, the files of its
// code when document and code last agreed.
type model struct {
	files map[string]string               // the tree
	refs  map[string][]string             // the specs in each existing document
	base  map[[2]string]map[string]string // the baseline of each pair, including pairs that ended
}

func (m *model) members(doc, spec string) map[string]string {
	out := map[string]string{}
	for p, text := range m.files {
		if p != doc && (p == spec || strings.HasSuffix(spec, "/") && strings.HasPrefix(p, spec)) {
			out[p] = text
		}
	}
	return out
}

// begin gives a baseline to each pair that has none and whose code exists.
func (m *model) begin() {
	for doc, refs := range m.refs {
		for _, spec := range refs {
			if now := m.members(doc, spec); m.base[[2]string{doc, spec}] == nil && len(now) > 0 {
				m.base[[2]string{doc, spec}] = now
			}
		}
	}
}

func (m *model) state() string {
	var out []string
	for doc, refs := range m.refs {
		for _, spec := range refs {
			base, now := m.base[[2]string{doc, spec}], m.members(doc, spec)
			line := fmt.Sprintf("%s <- %s ok", doc, spec)
			if base == nil {
				line = fmt.Sprintf("%s <- %s missing", doc, spec)
			} else if !maps.Equal(base, now) {
				line = fmt.Sprintf("%s <- %s stale", doc, spec)
			}
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestProperty: after random writes, deletions, renames, marks and restarts, the pairs are always
// as in the model. A stale pair is never called ok, and no other pair is called stale. Only some of
// the steps are followed by a check.
func TestProperty(t *testing.T) {
	seed := uint64(1)
	if s, err := strconv.ParseUint(os.Getenv("CACHEBRO_SEED"), 10, 64); err == nil {
		seed = s
	}
	for round := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, round))
		l := newLog(t)
		m := &model{files: map[string]string{}, refs: map[string][]string{}, base: map[[2]string]map[string]string{}}
		code := []string{"src/a.go", "src/b.go", "src/sub/c.go", "d.go"}
		docs := []string{"x.md", "src/y.md"}
		specs := []string{"src/", "src/a.go", "src/sub/", "d.go", "src/y.md"}
		pick := func(of []string) string { return of[rng.IntN(len(of))] }
		name := func(p string) {
			if !strings.HasSuffix(p, ".md") {
				return
			}
			delete(m.refs, p)
			if text, ok := m.files[p]; ok {
				for _, f := range strings.Fields(text)[3:] {
					if f != "-->" && f != p && !slices.Contains(m.refs[p], f) && !strings.HasPrefix(f, "v") {
						m.refs[p] = append(m.refs[p], f)
					}
				}
			}
		}
		var did []string
		for step := range 250 {
			act := ""
			switch n := rng.IntN(20); {
			case n < 8:
				p := pick(code)
				m.files[p] = fmt.Sprint("text ", rng.IntN(3))
				l.write(p, m.files[p])
				act = "write " + p
			case n < 12:
				p := pick(docs)
				m.files[p] = fmt.Sprintf("<!-- cachebro: documents %s %s -->", pick(specs), pick(specs))
				l.write(p, m.files[p])
				name(p)
				act = "write " + p + " " + m.files[p]
			case n < 14:
				p := pick(append(code, docs...))
				if _, ok := m.files[p]; !ok {
					continue
				}
				delete(m.files, p)
				l.remove(p)
				name(p)
				act = "remove " + p
			case n < 16:
				from, to := pick(append(code, docs...)), pick(append(code, docs...))
				if _, ok := m.files[from]; !ok || from == to || strings.HasSuffix(from, ".md") != strings.HasSuffix(to, ".md") {
					continue
				}
				l.rename(from, to)
				m.files[to] = m.files[from]
				delete(m.files, from)
				if strings.HasSuffix(to, ".md") {
					for k, b := range maps.Clone(m.base) {
						if at := [2]string{to, k[1]}; k[0] == from && m.base[at] == nil {
							m.base[at] = b
						}
					}
				}
				name(from)
				name(to)
				act = "rename " + from + " " + to
			case n < 17:
				l.reopen()
				act = "restart"
			default:
				ref := pick(docs)
				l.mark(ref, 0, false)
				for _, spec := range m.refs[ref] {
					if k := [2]string{ref, spec}; m.base[k] != nil {
						m.base[k] = m.members(ref, spec)
					}
				}
				for doc, refs := range m.refs { // a document may be the code of another one
					for _, spec := range refs {
						if k := [2]string{doc, spec}; doc != ref && m.base[k] != nil && (spec == ref || strings.HasSuffix(spec, "/") && strings.HasPrefix(ref, spec)) {
							m.base[k] = m.members(doc, spec)
						}
					}
				}
				act = "mark " + ref
			}
			m.begin()
			did = append(did, act)
			if rng.IntN(3) > 0 {
				continue
			}
			r, err := l.y.Check(t.Context(), Filter{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range r.Pairs {
				got = append(got, fmt.Sprintf("%s <- %s %s", p.Doc, p.Spec, p.State))
			}
			slices.Sort(got)
			if g, want := strings.Join(got, "\n"), m.state(); g != want {
				t.Fatalf("seed %d round %d step %d:\n got %s\nwant %s\nafter %s", seed, round, step, g, want, strings.Join(did[max(0, len(did)-25):], "\n"))
			}
		}
	}
}
