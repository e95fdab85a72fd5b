package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// tree is a file system in memory. Its operations answer the changes that the
// daemon would hand to Apply.
type tree struct {
	files map[Path]*inodeModel
	next  uint64
	actor Actor
	plan  string
	tails bool
}

type inodeModel struct {
	ino    uint64
	mode   uint32
	data   string
	target string
	mtime  int64
	closed int // bytes that the store has: what a tail may build on; -1 none
}

func newTree() *tree { return &tree{files: map[Path]*inodeModel{}, next: 100} }

func (t *tree) clone() map[Path]inodeModel {
	out := map[Path]inodeModel{}
	for p, n := range t.files {
		out[p] = inodeModel{mode: n.mode, data: n.data, target: n.target}
	}
	return out
}

func (t *tree) links(n *inodeModel) (k uint32) {
	for _, o := range t.files {
		if o == n {
			k++
		}
	}
	return k
}

func (t *tree) change(o Op, p, p2 Path, n *inodeModel) Change {
	clock += 1e6
	c := Change{Op: o, Path: p, Path2: p2, Time: clock, Actor: t.actor, Plan: t.plan}
	if n != nil {
		c.Node, c.Target = n.ino, n.target
		c.Stat = Stat{Dev: 1, Ino: n.ino, Birth: 7, Mode: n.mode, Nlink: max(1, t.links(n)), Size: int64(len(n.data)), Mtime: n.mtime}
	}
	return c
}

func (t *tree) write(p Path, data string) Change {
	n := t.files[p]
	if n == nil {
		t.next++
		n = &inodeModel{ino: t.next, mode: fileMode, closed: -1}
		t.files[p] = n
		n.data, n.closed, n.mtime = data, len(data), clock+1e6
		c := t.change(OpCreate, p, "", n)
		c.HasContent, c.Content = true, []byte(data)
		return c
	}
	old := n.data
	n.data, n.mtime = data, clock+1e6
	c := t.change(OpWrite, p, "", n)
	c.HasContent, c.Content = true, []byte(data)
	if t.tails && n.closed == len(old) && len(old) > 0 {
		k := 0
		for k < len(old) && k < len(data) && old[k] == data[k] {
			k++
		}
		if k > 0 {
			c.TailFrom, c.Content = int64(k), []byte(data[k:])
		}
	}
	n.closed = len(data)
	return c
}

func (t *tree) mkdir(p Path, mode uint32) Change {
	t.next++
	t.files[p] = &inodeModel{ino: t.next, mode: mode}
	return t.change(OpMkdir, p, "", t.files[p])
}

func (t *tree) symlink(p Path, target string) Change {
	t.next++
	t.files[p] = &inodeModel{ino: t.next, mode: unix.S_IFLNK | 0o777, target: target}
	return t.change(OpSymlink, p, "", t.files[p])
}

func (t *tree) remove(p Path) Change {
	n := t.files[p]
	o := OpUnlink
	if n.dir() {
		o = OpRmdir
	}
	c := t.change(o, p, "", n)
	c.LastName = t.links(n) == 1
	delete(t.files, p)
	return c
}

func (n *inodeModel) dir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

func (t *tree) rename(from, to Path) Change {
	n := t.files[from]
	delete(t.files, to)
	c := t.change(OpRename, from, to, n)
	moved := map[Path]*inodeModel{}
	for p, k := range t.files {
		if inside(p, from) {
			delete(t.files, p)
			moved[to+p[len(from):]] = k
		}
	}
	for p, k := range moved {
		t.files[p] = k
	}
	return c
}

func (t *tree) exchange(a, b Path) Change {
	c := t.change(OpExchange, a, b, t.files[a])
	moved := map[Path]*inodeModel{}
	for p, k := range t.files {
		switch {
		case inside(p, a):
			moved[b+p[len(a):]] = k
			delete(t.files, p)
		case inside(p, b):
			moved[a+p[len(b):]] = k
			delete(t.files, p)
		}
	}
	for p, k := range moved {
		t.files[p] = k
	}
	return c
}

func (t *tree) link(p, p2 Path) Change {
	t.files[p2] = t.files[p]
	return t.change(OpLink, p, p2, t.files[p])
}

func (t *tree) chmod(p Path, mode uint32) Change {
	n := t.files[p]
	n.mode = n.mode&unix.S_IFMT | mode
	return t.change(OpChmod, p, "", n)
}

func (t *tree) paths(ok func(Path, *inodeModel) bool) []Path {
	var out []Path
	for p, n := range t.files {
		if ok(p, n) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (t *tree) empty(p Path) bool {
	for o := range t.files {
		if strings.HasPrefix(string(o), string(p)+"/") {
			return false
		}
	}
	return true
}

// free is a path that does not exist, in a directory that does.
func (t *tree) free(r *rapid.T) (Path, bool) {
	dirs := append([]Path{""}, t.paths(func(_ Path, n *inodeModel) bool { return n.dir() })...)
	p := below(rapid.SampledFrom(dirs).Draw(r, "dir")) + Path(rapid.SampledFrom([]string{"a", "b", "c", "d d", "e\xff", "f-x"}).Draw(r, "name"))
	return p, t.files[p] == nil && strings.Count(string(p), "/") < 4
}

var lines = []string{"alpha\n", "beta\n", "gamma\n", "delta\n", "epsilon, a longer line of text\n"}

// step does one random thing and answers its change.
func (t *tree) step(r *rapid.T) (c Change, ok bool) {
	regular := t.paths(func(_ Path, n *inodeModel) bool { return n.mode&unix.S_IFMT == unix.S_IFREG })
	all := t.paths(func(Path, *inodeModel) bool { return true })
	text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 0, 8).Draw(r, "text"), "")
	switch what := rapid.IntRange(0, 11).Draw(r, "what"); {
	case what <= 1 || len(all) == 0:
		if p, ok := t.free(r); ok {
			return t.write(p, text), true
		}
	case what == 2:
		if p, ok := t.free(r); ok {
			return t.mkdir(p, dirMode), true
		}
	case what == 3:
		if p, ok := t.free(r); ok {
			return t.symlink(p, "to/"+text[:min(len(text), 4)]), true
		}
	case what <= 5 && len(regular) > 0:
		p := rapid.SampledFrom(regular).Draw(r, "file")
		if rapid.Bool().Draw(r, "append") {
			text = t.files[p].data + text
		}
		return t.write(p, text), true
	case what == 6:
		p := rapid.SampledFrom(all).Draw(r, "gone")
		if !t.files[p].dir() || t.empty(p) {
			return t.remove(p), true
		}
	case what <= 8:
		p := rapid.SampledFrom(all).Draw(r, "from")
		to, free := t.free(r)
		if len(regular) > 0 && !t.files[p].dir() && rapid.Bool().Draw(r, "over") {
			to, free = rapid.SampledFrom(regular).Draw(r, "to"), true
		}
		if free && p != to && t.files[p] != t.files[to] && !inside(to, p) && strings.Count(string(to), "/")+3 < 9 {
			return t.rename(p, to), true
		}
	case what == 9 && len(all) > 1:
		a, b := rapid.SampledFrom(all).Draw(r, "a"), rapid.SampledFrom(all).Draw(r, "b")
		if !inside(a, b) && !inside(b, a) && t.files[a] != t.files[b] {
			return t.exchange(a, b), true
		}
	case what == 10 && len(regular) > 0:
		p := rapid.SampledFrom(regular).Draw(r, "link")
		if to, ok := t.free(r); ok {
			return t.link(p, to), true
		}
	case what == 11:
		p := rapid.SampledFrom(all).Draw(r, "mode of")
		if t.files[p].mode&unix.S_IFMT != unix.S_IFLNK {
			return t.chmod(p, rapid.SampledFrom([]uint32{0o600, 0o644, 0o755}).Draw(r, "mode")), true
		}
	}
	return c, false
}

// differs compares the store's live paths with a tree.
func differs(s *Store, want map[Path]inodeModel) string {
	seen := map[Path]bool{}
	msg := ""
	note := func(f string, a ...any) { msg += fmt.Sprintf(f, a...) + "\n" }
	err := s.Live("", func(v Version) error {
		seen[v.Path] = true
		n, ok := want[v.Path]
		if !ok {
			note("%q is live in the store only", v.Path)
			return nil
		}
		if v.Stat.Mode != n.mode {
			note("%q has mode %o, want %o", v.Path, v.Stat.Mode, n.mode)
		}
		if v.Target != n.target {
			note("%q points to %q, want %q", v.Path, v.Target, n.target)
		}
		if n.mode&unix.S_IFMT == unix.S_IFREG {
			b, err := s.Content(v.Blob)
			if err != nil || string(b) != n.data {
				note("%q is %q (%v), want %q", v.Path, b, err, n.data)
			}
		}
		return nil
	})
	if err != nil {
		note("live: %v", err)
	}
	for p := range want {
		if !seen[p] {
			note("%q is missing in the store", p)
		}
	}
	return msg
}

// unlike says how a file differs from what a step expects.
func (n *inodeModel) unlike(st Step) string {
	if len(st.Expect) == 64 {
		content := ""
		switch {
		case n == nil:
			return "nothing is there"
		case n.mode&unix.S_IFMT == unix.S_IFLNK:
			content = n.target
		default:
			content = n.data
		}
		if hex.EncodeToString(hashOf(content)) != st.Expect {
			return "another content"
		}
	}
	if kind := st.ExpMode & unix.S_IFMT; kind != 0 && n != nil && n.mode&unix.S_IFMT != kind {
		return "another kind"
	}
	if st.ExpMode != 0 && n != nil && n.mode&0o7777 != st.ExpMode&0o7777 {
		return "another mode"
	}
	return ""
}

func hashOf(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

// perform carries a plan out on the tree, as a client would through the mount.
func (t *tree) perform(s *Store, p *Plan) ([]Change, error) {
	var cs []Change
	t.plan = p.ID
	defer func() { t.plan = "" }()
	for _, st := range p.Steps {
		n, first := t.files[st.Path], len(cs)
		if msg := n.unlike(st); msg != "" {
			return nil, fmt.Errorf("step %+v: %s", st, msg)
		}
		if st.Expect == ExpectAbsent && st.Do != DoRename && n != nil {
			return nil, fmt.Errorf("step %+v: something is there", st)
		}
		if d := path.Dir(string(st.Path)); st.Do != DoDelete && d != "." && (t.files[Path(d)] == nil || !t.files[Path(d)].dir()) {
			return nil, fmt.Errorf("step %+v: no such directory", st)
		}
		switch st.Do {
		case DoWrite:
			b, err := s.Content(st.Blob)
			if err != nil {
				return nil, err
			}
			if n != nil && t.links(n) > 1 && !st.Apart {
				// In place, for the file's other names.
				cs = append(cs, t.write(st.Path, string(b)))
				if n.mode != st.Mode {
					cs = append(cs, t.chmod(st.Path, st.Mode&0o7777))
				}
				break
			}
			// An atomic save: a new inode, as the client does it.
			if n != nil {
				tmp := st.Path + ".new"
				cs = append(cs, t.write(tmp, string(b)))
				t.files[tmp].mode = st.Mode
				cs = append(cs, t.chmod(tmp, st.Mode&0o7777), t.rename(tmp, st.Path))
				break
			}
			cs = append(cs, t.write(st.Path, string(b)), t.chmod(st.Path, st.Mode&0o7777))
		case DoDelete, DoRmdir:
			if n == nil || (st.Do == DoRmdir) != n.dir() || n.dir() && !t.empty(st.Path) {
				return nil, fmt.Errorf("step %+v: cannot remove %+v", st, n)
			}
			cs = append(cs, t.remove(st.Path))
		case DoMkdir:
			cs = append(cs, t.mkdir(st.Path, st.Mode))
		case DoRename:
			if n == nil || t.files[st.To] != nil {
				return nil, fmt.Errorf("step %+v: cannot rename", st)
			}
			if d := path.Dir(string(st.To)); d != "." && t.files[Path(d)] == nil {
				return nil, fmt.Errorf("step %+v: no such directory", st)
			}
			cs = append(cs, t.rename(st.Path, st.To))
		case DoExchange:
			if to := t.files[st.To]; n == nil || to == nil || !to.dir() || st.Ino != 0 && st.Ino != n.ino {
				return nil, fmt.Errorf("step %+v: cannot exchange", st)
			}
			cs = append(cs, t.exchange(st.Path, st.To))
		case DoSymlink:
			if n != nil {
				cs = append(cs, t.remove(st.Path))
			}
			cs = append(cs, t.symlink(st.Path, st.Target))
		case DoLink:
			if n != nil && n == t.files[st.To] {
				break
			}
			if st.Expect == "" || t.files[st.To] == nil {
				return nil, fmt.Errorf("step %+v: %q is another file", st, st.To)
			}
			if n != nil {
				tmp := st.Path + ".new"
				cs = append(cs, t.link(st.To, tmp), t.rename(tmp, st.Path))
				break
			}
			cs = append(cs, t.link(st.To, st.Path))
		case DoChmod:
			cs = append(cs, t.chmod(st.Path, st.Mode&0o7777))
		}
		if n := t.files[st.Path]; st.Do == DoWrite && st.Mtime != 0 {
			n.mtime = st.Mtime
			for i := range cs[first:] {
				if c := &cs[first+i]; c.Stat.Ino == n.ino {
					c.Stat.Mtime = n.mtime
				}
			}
		}
	}
	return cs, nil
}
