package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	fileMode = unix.S_IFREG | 0o644
	dirMode  = unix.S_IFDIR | 0o755
)

// testOptions returns options that make the tests independent of the machine's free space.
func testOptions() Options {
	return Options{MinFree: 1, Ballast: -1}
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	return open(t, t.TempDir(), testOptions())
}

var clock int64 = 1_700_000_000_000_000_000

// file returns a change that closes a file with content.
func file(op Op, p Path, content string) Change {
	clock += int64(time.Millisecond)
	return Change{
		Op: op, Path: p, Time: clock, HasContent: true, Content: []byte(content),
		Stat:  Stat{Mode: fileMode, Size: int64(len(content)), Nlink: 1, Mtime: clock},
		Actor: Actor{PID: 7, Comm: "test"},
	}
}

func op(o Op, p, p2 Path, mode uint32) Change {
	clock += int64(time.Millisecond)
	return Change{Op: o, Path: p, Path2: p2, Time: clock, Stat: Stat{Mode: mode, Nlink: 1}, Actor: Actor{PID: 7, Comm: "test"}}
}

func apply(t testing.TB, s *Store, cs ...Change) []Version {
	t.Helper()
	vs, err := s.Apply(context.Background(), cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func contentOf(t testing.TB, s *Store, p Path) string {
	t.Helper()
	v, found, err := s.Current(p)
	if err != nil || !found || v.Deleted() {
		t.Fatalf("current %q: %v %v %+v", p, found, err, v)
	}
	b, err := s.Content(v.Blob)
	if err != nil {
		t.Fatalf("content of %q: %v", p, err)
	}
	return string(b)
}

// A→B→A gives three versions, and the third has the content of the first.
func TestBackAgain(t *testing.T) {
	s := fresh(t)
	for _, text := range []string{"one\n", "two\n", "one\n"} {
		apply(t, s, file(OpWrite, "a", text))
	}
	vs, err := s.History("a", true)
	if err != nil || len(vs) != 3 {
		t.Fatalf("history: %d versions, %v", len(vs), err)
	}
	if vs[0].Blob != vs[2].Blob || vs[0].Blob == vs[1].Blob {
		t.Fatal("contents are not one, two, one")
	}
	if vs[2].Prev != vs[1].Seq || vs[1].Prev != vs[0].Seq || vs[0].Prev != 0 {
		t.Fatalf("predecessors: %d %d %d", vs[0].Prev, vs[1].Prev, vs[2].Prev)
	}
	if got := contentOf(t, s, "a"); got != "one\n" {
		t.Fatalf("content %q", got)
	}
	// Writing the same content again gives no version.
	if vs := apply(t, s, file(OpWrite, "a", "one\n")); len(vs) != 0 {
		t.Fatalf("an unchanged file made %d versions", len(vs))
	}
}

func TestRenameDirectory(t *testing.T) {
	s := fresh(t)
	apply(t, s,
		op(OpMkdir, "d", "", dirMode), op(OpMkdir, "d/sub", "", dirMode),
		file(OpCreate, "d/a", "a"), file(OpCreate, "d/sub/b", "b"), file(OpCreate, "d-x", "x"))
	vs := apply(t, s, op(OpRename, "d", "e", dirMode))
	if len(vs) != 8 {
		t.Fatalf("%d versions of a renamed tree of 4, want 8", len(vs))
	}
	apply(t, s, op(OpRename, "d-x", "d-y", fileMode))
	for _, v := range append(vs, Version{Seq: vs[0].Seq - 1}) {
		want := vs[len(vs)-1].Seq
		if v.Path == "" {
			want = v.Seq // this version was made before the rename
		}
		err := s.View(func(view *View) error {
			got, err := view.EndOfOperation(v.Seq)
			if err == nil && got != want {
				t.Errorf("the whole of version %d: %d; want %d", v.Seq, got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if got := contentOf(t, s, "e/sub/b"); got != "b" {
		t.Fatalf("e/sub/b is %q", got)
	}
	var live []Path
	if err := s.Live("", func(v Version) error { live = append(live, v.Path); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := "[d-y e e/a e/sub e/sub/b]"; fmt.Sprint(live) != want {
		t.Fatalf("live %v, want %v", live, want)
	}
	h, err := s.History("e/sub/b", true)
	if err != nil || len(h) != 2 || h[0].Path != "d/sub/b" || h[1].From != "d/sub/b" {
		t.Fatalf("history of a moved file: %+v %v", h, err)
	}
	if st := s.Stats(); st.Files != 3 {
		t.Fatalf("%d files, want 3", st.Files)
	}
}

func TestAtomicSaveKeepsHistory(t *testing.T) {
	s := fresh(t)
	text := bytes.Repeat([]byte("some line of text that is long enough\n"), 200)
	edit := append(append([]byte{}, text...), "more\n"...)
	apply(t, s, file(OpWrite, "a", string(text)))
	apply(t, s, file(OpCreate, "a.tmp", string(edit)), op(OpRename, "a.tmp", "a", fileMode))
	h, err := s.History("a", true)
	if err != nil || len(h) != 2 || h[0].Path != "a" || h[1].From != "a.tmp" {
		t.Fatalf("history after an atomic save: %+v %v", h, err)
	}
	if st := s.Stats(); st.BlobBytes > 400 {
		t.Fatalf("two versions of a file take %d bytes: no delta", st.BlobBytes)
	}
	if got := contentOf(t, s, "a"); got != string(edit) {
		t.Fatal("wrong content")
	}
}

// The cost of an append-and-close loop must depend on what is appended, not on the size of the
// whole file.
func TestTails(t *testing.T) {
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	all := []byte("first\n")
	c := file(OpCreate, "log", string(all))
	c.Node, c.Stat.Ino, c.Stat.Birth = 9, 5, 5
	apply(t, s, c)
	want := map[Hash]int{}
	const rounds = 3000
	for range rounds {
		line := fmt.Appendf(nil, "line %x\n", rnd.Uint64())
		c := file(OpWrite, "log", "")
		c.Node, c.Stat.Ino, c.Stat.Birth = 9, 5, 5
		c.TailFrom, c.Content = int64(len(all)), line
		all = append(all, line...)
		c.Stat.Size = int64(len(all))
		v := apply(t, s, c)
		want[v[0].Blob] = len(all)
	}
	st := s.Stats()
	t.Logf("%d appends, %d bytes in the end: %d bytes stored", rounds, len(all), st.BlobBytes)
	if st.BlobBytes > 12*int64(len(all)) {
		t.Errorf("stored %d bytes for a log of %d", st.BlobBytes, len(all))
	}
	s.contents.Forget()
	for h, n := range want {
		b, err := s.Content(h)
		if err != nil || !bytes.Equal(b, all[:n]) {
			t.Fatalf("content of %d bytes: %v", n, err)
		}
		if n%16 != 0 {
			s.contents.Forget()
		}
	}
	// After a restart the node table is empty, so the path's inode is used.
	dir := s.Dir()
	s.Close()
	s = open(t, dir, testOptions())
	c = file(OpWrite, "log", "")
	c.Node, c.Stat.Ino, c.Stat.Birth = 9, 5, 5
	c.TailFrom, c.Content = int64(len(all)), []byte("end\n")
	apply(t, s, c)
	if got := contentOf(t, s, "log"); got != string(all)+"end\n" {
		t.Fatal("append after a restart")
	}
	c.Stat.Ino = 77
	if _, err := s.Apply(context.Background(), []Change{c}, nil); Hint(err) != "" || err == nil {
		t.Fatalf("append to an unknown inode: %v", err)
	}
}

func BenchmarkApply10k(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 500)
	for i := range words {
		words[i] = fmt.Sprintf("%x", rnd.Uint64()>>uint(rnd.IntN(50)))
	}
	texts := make([][]byte, 10000)
	for i := range texts {
		var t bytes.Buffer
		for n := 500 + rnd.IntN(8000); t.Len() < n; {
			t.WriteString(words[rnd.IntN(len(words))])
			t.WriteByte(" \n"[rnd.IntN(2)])
		}
		texts[i] = t.Bytes()
	}
	var spent time.Duration
	for b.Loop() {
		s := open(b, b.TempDir(), testOptions())
		began := time.Now()
		var cs []Change
		for i, text := range texts {
			c := file(OpCreate, Path(fmt.Sprintf("dir%d/sub%d/file%d.go", i%10, i%100, i)), "")
			c.Content, c.Node, c.Stat.Ino, c.Stat.Birth = text, uint64(i+1), uint64(i+1), 3
			if cs = append(cs, c); len(cs) == 256 || i == len(texts)-1 {
				if _, err := s.Apply(context.Background(), cs, fmt.Append(nil, i)); err != nil {
					b.Fatal(err)
				}
				cs = cs[:0:0]
			}
		}
		spent += time.Since(began)
		s.Close()
	}
	b.ReportMetric(float64(len(texts)*b.N)/spent.Seconds(), "files/s")
}

func testRand() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }
