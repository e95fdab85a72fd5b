package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cachebro/store"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Tree is a file system in memory. Its operations return the changes that the daemon would pass to
// Apply.
type Tree struct {
	Files map[store.Path]*File
	next  uint64
	Actor store.Actor
	Plan  string
	Tails bool
	// Bare makes plans replace files as they do without a mount. The file that loses its last name
	// exists for a moment under the temporary name, and the new file is recorded before its content
	// is complete.
	Bare bool
}

// File is the file behind one or more paths of a tree.
type File struct {
	Ino    uint64
	Mode   uint32
	Data   string
	Target string
	Mtime  int64
	Birth  int64
	closed int // number of bytes in the store to which a later change may add a tail; -1 if there are none
}

func NewTree() *Tree { return &Tree{Files: map[store.Path]*File{}, next: 100} }

func (t *Tree) Clone() map[store.Path]File {
	out := map[store.Path]File{}
	for p, n := range t.Files {
		out[p] = File{Mode: n.Mode, Data: n.Data, Target: n.Target}
	}
	return out
}

func (t *Tree) Links(n *File) (k uint32) {
	for _, o := range t.Files {
		if o == n {
			k++
		}
	}
	return k
}

func (t *Tree) Change(o store.Op, p, p2 store.Path, n *File) store.Change {
	clock += int64(time.Millisecond)
	c := store.Change{Op: o, Path: p, Path2: p2, Time: clock, Actor: t.Actor, Plan: t.Plan}
	if n != nil {
		c.Node, c.Target = n.Ino, n.Target
		if n.Birth == 0 {
			n.Birth = clock
		}
		c.Stat = store.Stat{Dev: 1, Ino: n.Ino, Birth: n.Birth, Mode: n.Mode, Nlink: max(1, t.Links(n)), Size: int64(len(n.Data)), Mtime: n.Mtime}
	}
	return c
}

func (t *Tree) Write(p store.Path, data string) store.Change {
	n := t.Files[p]
	if n == nil {
		t.next++
		n = &File{Ino: t.next, Mode: FileMode, closed: -1}
		t.Files[p] = n
		n.Data, n.closed, n.Mtime = data, len(data), clock+1e6
		c := t.Change(store.OpCreate, p, "", n)
		c.HasContent, c.Content = true, []byte(data)
		return c
	}
	old := n.Data
	n.Data, n.Mtime = data, clock+1e6
	c := t.Change(store.OpWrite, p, "", n)
	c.HasContent, c.Content = true, []byte(data)
	if t.Tails && n.closed == len(old) && len(old) > 0 {
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

func (t *Tree) Mkdir(p store.Path, mode uint32) store.Change {
	t.next++
	t.Files[p] = &File{Ino: t.next, Mode: mode}
	return t.Change(store.OpMkdir, p, "", t.Files[p])
}

func (t *Tree) Mkfifo(p store.Path) store.Change {
	t.next++
	t.Files[p] = &File{Ino: t.next, Mode: unix.S_IFIFO | 0o644}
	return t.Change(store.OpMknod, p, "", t.Files[p])
}

func (t *Tree) Symlink(p store.Path, target string) store.Change {
	t.next++
	t.Files[p] = &File{Ino: t.next, Mode: unix.S_IFLNK | 0o777, Target: target}
	return t.Change(store.OpSymlink, p, "", t.Files[p])
}

func (t *Tree) Remove(p store.Path) store.Change {
	n := t.Files[p]
	o := store.OpUnlink
	if n.dir() {
		o = store.OpRmdir
	}
	c := t.Change(o, p, "", n)
	c.LastName = t.Links(n) == 1
	delete(t.Files, p)
	return c
}

func (n *File) dir() bool { return n.Mode&unix.S_IFMT == unix.S_IFDIR }

func (t *Tree) Rename(from, to store.Path) store.Change {
	n := t.Files[from]
	delete(t.Files, to)
	c := t.Change(store.OpRename, from, to, n)
	moved := map[store.Path]*File{}
	for p, k := range t.Files {
		if p.Inside(from) {
			delete(t.Files, p)
			moved[to+p[len(from):]] = k
		}
	}
	for p, k := range moved {
		t.Files[p] = k
	}
	return c
}

func (t *Tree) Exchange(a, b store.Path) store.Change {
	c := t.Change(store.OpExchange, a, b, t.Files[a])
	moved := map[store.Path]*File{}
	for p, k := range t.Files {
		switch {
		case p.Inside(a):
			moved[b+p[len(a):]] = k
			delete(t.Files, p)
		case p.Inside(b):
			moved[a+p[len(b):]] = k
			delete(t.Files, p)
		}
	}
	for p, k := range moved {
		t.Files[p] = k
	}
	return c
}

func (t *Tree) Link(p, p2 store.Path) store.Change {
	t.Files[p2] = t.Files[p]
	return t.Change(store.OpLink, p, p2, t.Files[p])
}

func (t *Tree) Chmod(p store.Path, mode uint32) store.Change {
	n := t.Files[p]
	n.Mode = n.Mode&unix.S_IFMT | mode
	return t.Change(store.OpChmod, p, "", n)
}

func (t *Tree) Paths(ok func(store.Path, *File) bool) []store.Path {
	var out []store.Path
	for p, n := range t.Files {
		if ok(p, n) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (t *Tree) Empty(p store.Path) bool {
	for o := range t.Files {
		if strings.HasPrefix(string(o), string(p)+"/") {
			return false
		}
	}
	return true
}

// free draws a path that does not exist. It is in an existing directory.
func (t *Tree) free(r *rapid.T) (store.Path, bool) {
	dirs := append([]store.Path{""}, t.Paths(func(_ store.Path, n *File) bool { return n.dir() })...)
	p := rapid.SampledFrom(dirs).Draw(r, "dir")
	if p != "" {
		p += "/"
	}
	p += store.Path(rapid.SampledFrom([]string{"a", "b", "c", "d d", "e\xff", "f-x"}).Draw(r, "name"))
	return p, t.Files[p] == nil && strings.Count(string(p), "/") < 4
}

var lines = []string{"alpha\n", "beta\n", "gamma\n", "delta\n", "epsilon, a longer line of text\n"}

// Step does one random operation and returns its change.
func (t *Tree) Step(r *rapid.T) (c store.Change, ok bool) {
	regular := t.Paths(func(_ store.Path, n *File) bool { return n.Mode&unix.S_IFMT == unix.S_IFREG })
	all := t.Paths(func(store.Path, *File) bool { return true })
	text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 0, 8).Draw(r, "text"), "")
	switch what := rapid.IntRange(0, 11).Draw(r, "what"); {
	case what <= 1 || len(all) == 0:
		if p, ok := t.free(r); ok {
			return t.Write(p, text), true
		}
	case what == 2:
		if p, ok := t.free(r); ok {
			return t.Mkdir(p, DirMode), true
		}
	case what == 3:
		if p, ok := t.free(r); ok {
			return t.Symlink(p, "to/"+text[:min(len(text), 4)]), true
		}
	case what <= 5 && len(regular) > 0:
		p := rapid.SampledFrom(regular).Draw(r, "file")
		if rapid.Bool().Draw(r, "append") {
			text = t.Files[p].Data + text
		}
		return t.Write(p, text), true
	case what == 6:
		p := rapid.SampledFrom(all).Draw(r, "gone")
		if !t.Files[p].dir() || t.Empty(p) {
			return t.Remove(p), true
		}
	case what <= 8:
		p := rapid.SampledFrom(all).Draw(r, "from")
		to, free := t.free(r)
		if len(regular) > 0 && !t.Files[p].dir() && rapid.Bool().Draw(r, "over") {
			to, free = rapid.SampledFrom(regular).Draw(r, "to"), true
		}
		if free && p != to && t.Files[p] != t.Files[to] && !to.Inside(p) && strings.Count(string(to), "/")+3 < 9 {
			return t.Rename(p, to), true
		}
	case what == 9 && len(all) > 1:
		a, b := rapid.SampledFrom(all).Draw(r, "a"), rapid.SampledFrom(all).Draw(r, "b")
		if !a.Inside(b) && !b.Inside(a) && t.Files[a] != t.Files[b] {
			return t.Exchange(a, b), true
		}
	case what == 10 && len(regular) > 0:
		p := rapid.SampledFrom(regular).Draw(r, "link")
		if to, ok := t.free(r); ok {
			return t.Link(p, to), true
		}
	case what == 11:
		p := rapid.SampledFrom(all).Draw(r, "mode of")
		if t.Files[p].Mode&unix.S_IFMT != unix.S_IFLNK {
			return t.Chmod(p, rapid.SampledFrom([]uint32{0o600, 0o644, 0o755}).Draw(r, "mode")), true
		}
	}
	return c, false
}

// Differs compares the store's existing paths with a tree and returns the differences.
func Differs(s *store.Store, want map[store.Path]File) string {
	seen := map[store.Path]bool{}
	msg := ""
	note := func(f string, a ...any) { msg += fmt.Sprintf(f, a...) + "\n" }
	err := s.Live("", func(v store.Version) error {
		seen[v.Path] = true
		n, ok := want[v.Path]
		if !ok {
			note("%q is live in the store only", v.Path)
			return nil
		}
		if v.Stat.Mode != n.Mode {
			note("%q has mode %o, want %o", v.Path, v.Stat.Mode, n.Mode)
		}
		if v.Target != n.Target {
			note("%q points to %q, want %q", v.Path, v.Target, n.Target)
		}
		if n.Mode&unix.S_IFMT == unix.S_IFREG {
			b, err := s.Content(v.Blob)
			if err != nil || string(b) != n.Data {
				note("%q is %q (%v), want %q", v.Path, b, err, n.Data)
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

// unlike returns how a file differs from the state that a step expects, or "" if it does not.
func (n *File) unlike(st store.Step) string {
	if len(st.Expect) == 64 {
		content := ""
		switch {
		case n == nil:
			return "nothing is there"
		case n.Mode&unix.S_IFMT == unix.S_IFLNK:
			content = n.Target
		default:
			content = n.Data
		}
		if hex.EncodeToString(HashOf(content)) != st.Expect {
			return "another content"
		}
	}
	if kind := st.ExpMode & unix.S_IFMT; kind != 0 && n != nil && n.Mode&unix.S_IFMT != kind {
		return "another kind"
	}
	if st.ExpMode != 0 && n != nil && n.Mode&0o7777 != st.ExpMode&0o7777 {
		return "another mode"
	}
	return ""
}

func HashOf(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

// Perform carries out a plan on the tree, as a client would through the mount.
func (t *Tree) Perform(s *store.Store, p *store.Plan) ([]store.Change, error) {
	var cs []store.Change
	t.Plan = p.ID
	defer func() { t.Plan = "" }()
	for _, st := range p.Steps {
		n, first := t.Files[st.Path], len(cs)
		if msg := n.unlike(st); msg != "" {
			return nil, fmt.Errorf("step %+v: %s", st, msg)
		}
		if st.Expect == store.ExpectAbsent && st.Do != store.DoRename && n != nil {
			return nil, fmt.Errorf("step %+v: something is there", st)
		}
		if d := path.Dir(string(st.Path)); st.Do != store.DoDelete && d != "." && (t.Files[store.Path(d)] == nil || !t.Files[store.Path(d)].dir()) {
			return nil, fmt.Errorf("step %+v: no such directory", st)
		}
		switch st.Do {
		case store.DoWrite:
			b, err := s.Content(st.Blob)
			if err != nil {
				return nil, err
			}
			if n != nil && t.Links(n) > 1 && !st.Apart {
				// Write the file in place, so that its other names still refer to it.
				cs = append(cs, t.Write(st.Path, string(b)))
				if n.Mode != st.Mode {
					cs = append(cs, t.Chmod(st.Path, st.Mode&0o7777))
				}
				break
			}
			// Save atomically with a new inode, as the client does.
			if n != nil {
				tmp := temporary(p, st)
				cs = append(cs, t.Write(tmp, string(b)))
				t.Files[tmp].Mode = st.Mode
				cs = append(cs, t.Chmod(tmp, st.Mode&0o7777))
				cs = append(cs, t.replace(tmp, st.Path)...)
				break
			}
			cs = append(cs, t.Write(st.Path, string(b)), t.Chmod(st.Path, st.Mode&0o7777))
		case store.DoDelete, store.DoRmdir:
			if n == nil || (st.Do == store.DoRmdir) != n.dir() || n.dir() && !t.Empty(st.Path) {
				return nil, fmt.Errorf("step %+v: cannot remove %+v", st, n)
			}
			cs = append(cs, t.Remove(st.Path))
		case store.DoMkdir:
			cs = append(cs, t.Mkdir(st.Path, st.Mode))
		case store.DoRename:
			if n == nil || t.Files[st.To] != nil {
				return nil, fmt.Errorf("step %+v: cannot rename", st)
			}
			if d := path.Dir(string(st.To)); d != "." && t.Files[store.Path(d)] == nil {
				return nil, fmt.Errorf("step %+v: no such directory", st)
			}
			cs = append(cs, t.Rename(st.Path, st.To))
		case store.DoExchange:
			if to := t.Files[st.To]; n == nil || to == nil || !to.dir() || st.Ino != 0 && st.Ino != n.Ino {
				return nil, fmt.Errorf("step %+v: cannot exchange", st)
			}
			cs = append(cs, t.Exchange(st.Path, st.To))
		case store.DoSymlink:
			if n != nil {
				cs = append(cs, t.Remove(st.Path))
			}
			cs = append(cs, t.Symlink(st.Path, st.Target))
		case store.DoLink:
			if n != nil && n == t.Files[st.To] {
				break
			}
			if st.Expect == "" || t.Files[st.To] == nil {
				return nil, fmt.Errorf("step %+v: %q is another file", st, st.To)
			}
			if n != nil {
				tmp := temporary(p, st)
				cs = append(cs, t.Link(st.To, tmp))
				cs = append(cs, t.replace(tmp, st.Path)...)
				break
			}
			cs = append(cs, t.Link(st.To, st.Path))
		case store.DoChmod:
			cs = append(cs, t.Chmod(st.Path, st.Mode&0o7777))
		}
		if n := t.Files[st.Path]; (st.Do == store.DoWrite || st.Do == store.DoChmod) && st.Mtime != 0 {
			n.Mtime = st.Mtime
			for i := range cs[first:] {
				if c := &cs[first+i]; c.Stat.Ino == n.Ino && !(t.Bare && c.Op == store.OpCreate) {
					c.Stat.Mtime = n.Mtime
				}
			}
		}
	}
	return cs, nil
}

// temporary returns the name of the file that will replace the file of a step.
func temporary(p *store.Plan, st store.Step) store.Path {
	return store.Path(path.Join(path.Dir(string(st.Path)), fmt.Sprintf(".cachebro-%s-%d~", p.ID, st.N)))
}

// replace gives the file tmp the name of another file.
func (t *Tree) replace(tmp, name store.Path) []store.Change {
	if !t.Bare || t.Links(t.Files[name]) > 1 {
		return []store.Change{t.Rename(tmp, name)}
	}
	return []store.Change{t.Exchange(tmp, name), t.Remove(tmp)}
}

func (t *Tree) Has(ino uint64) bool {
	for _, n := range t.Files {
		if n.Ino == ino {
			return true
		}
	}
	return false
}

// Whole returns a copy with all fields of the files.
func (t *Tree) Whole() map[store.Path]File {
	out := map[store.Path]File{}
	for p, n := range t.Files {
		out[p] = *n
	}
	return out
}
