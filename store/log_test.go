package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLogFilters(t *testing.T) {
	s := fresh(t)
	start := clock
	for i := range 1000 {
		c := file(OpWrite, Path(fmt.Sprintf("dir%d/f%d", i%3, i%10)), fmt.Sprint(i))
		c.Time = start + int64(i)*1e9
		c.Actor = Actor{PID: uint32(i % 5), Comm: fmt.Sprintf("comm%d", i%4), Session: SessionID(fmt.Sprintf("S%d", i%2)),
			Prompt: fmt.Sprintf("p%d", i/100), ToolCall: fmt.Sprintf("t%d", i/10)}
		if i%50 == 0 {
			c.Op = OpBaseline
		}
		apply(t, s, c)
	}
	at := func(i int) time.Time { return time.Unix(0, start+int64(i)*1e9) }
	for name, tc := range map[string]struct {
		f    Filter
		n    int
		more bool
	}{
		"all":          {Filter{}, 980, false},
		"baselines":    {Filter{Baselines: true}, 1000, false},
		"limit":        {Filter{Limit: 7}, 7, true},
		"file":         {Filter{Path: "dir0/f0"}, 27, false},
		"directory":    {Filter{Path: "dir1"}, 327, false},
		"session":      {Filter{Session: "S1"}, 500, false},
		"prompt":       {Filter{Prompt: "p3", Oldest: true}, 98, false},
		"tool call":    {Filter{ToolCall: "t99"}, 10, false},
		"both":         {Filter{Session: "S1", Prompt: "p3"}, 50, false},
		"since":        {Filter{Since: at(991)}, 9, false},
		"until":        {Filter{Until: at(8), Oldest: true}, 8, false},
		"between":      {Filter{Since: at(101), Until: at(110)}, 10, false},
		"before":       {Filter{Before: 4}, 2, false},
		"after":        {Filter{After: 998}, 2, false},
		"after oldest": {Filter{After: 998, Oldest: true}, 2, false},
		"ops":          {Filter{Ops: []Op{OpBaseline}}, 20, false},
		"nothing":      {Filter{Session: "S9"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			vs, more, err := s.Log(tc.f)
			if err != nil || len(vs) != tc.n || more != tc.more {
				t.Fatalf("%d versions, more %v, %v; want %d", len(vs), more, err, tc.n)
			}
			for i := 1; i < len(vs); i++ {
				if (vs[i].Seq > vs[i-1].Seq) != tc.f.Oldest {
					t.Fatalf("order at %d", i)
				}
			}
		})
	}
	// Pages follow each other without gap or overlap.
	var pages []Version
	for before := uint64(0); ; {
		vs, more, err := s.Log(Filter{Limit: 77, Before: before, Session: "S0"})
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, vs...)
		if !more {
			break
		}
		before = vs[len(vs)-1].Seq
	}
	if len(pages) != 480 {
		t.Fatalf("%d versions in pages", len(pages))
	}
	if seq, err := s.SeqAt(at(499)); err != nil || seq != 500 {
		t.Fatalf("seq at a moment: %d %v", seq, err)
	}
	then, err := s.SeqAt(at(31))
	if v, ok, verr := s.AtSeq("dir0/f0", then); err != nil || verr != nil || !ok || v.Seq != 31 {
		t.Fatalf("at: %+v %v %v %v", v.Seq, ok, err, verr)
	}
	if vs, err := s.Since(990, 5); err != nil || len(vs) != 5 || vs[0].Seq != 991 {
		t.Fatalf("since: %v %d", err, len(vs))
	}
}

// A deletion carries the file's last content, which becomes a baseline.
func TestPreimage(t *testing.T) {
	s := fresh(t)
	c := op(OpUnlink, ".env", "", fileMode)
	c.HasContent, c.Content, c.Class = true, []byte("KEY=1\n"), 1
	vs := apply(t, s, c)
	if len(vs) != 2 || vs[0].Op != OpBaseline || vs[1].Op != OpUnlink {
		t.Fatalf("%+v", vs)
	}
	if b, err := s.Content(vs[0].Blob); err != nil || string(b) != "KEY=1\n" {
		t.Fatalf("%q %v", b, err)
	}
}

func TestBlame(t *testing.T) {
	s := fresh(t)
	apply(t, s, file(OpWrite, "a", "1\n2\n3\n"))
	apply(t, s, file(OpWrite, "a", "1\ntwo\n3\n"))
	apply(t, s, op(OpRename, "a", "b", fileMode))
	apply(t, s, file(OpWrite, "b", "0\n1\ntwo\n3\n"))
	ls, err := s.Blame("b", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, l := range ls {
		got = append(got, fmt.Sprintf("%d:%d:%s", i+1, l.Seq, strings.TrimSpace(string(l.Text))))
	}
	if want := "1:5:0 2:1:1 3:2:two 4:1:3"; strings.Join(got, " ") != want {
		t.Fatalf("%v, want %v", got, want)
	}
	apply(t, s, file(OpWrite, "bin", "a\x00b"))
	if _, err := s.Blame("bin", 0); err == nil {
		t.Fatal("blame of a binary file")
	}
}

func TestSessionsAndSettings(t *testing.T) {
	s := fresh(t)
	for i := range 3 {
		id := SessionID(fmt.Sprint("s", i))
		err := errors.Join(
			s.Sessions.Put(Session{ID: id, Last: int64(10 - i)}),
			s.Sessions.PutPrompt(Prompt{ID: fmt.Sprint("p", i), Session: id, Time: int64(i)}),
			s.Sessions.PutToolCall(ToolCall{ID: fmt.Sprint("t", i), Session: "s0", Begin: int64(i), Tool: "Bash"}),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if vs, err := s.Sessions.List(1); err != nil || len(vs) != 1 || vs[0].ID != "s0" {
		t.Fatalf("last session %+v %v", vs, err)
	}
	if vs, err := s.Sessions.LastPrompts("", 1); err != nil || len(vs) != 1 || vs[0].ID != "p2" {
		t.Fatalf("last prompt %+v %v", vs, err)
	}
	if vs, err := s.Sessions.ToolCalls("s0", 2); err != nil || len(vs) != 2 || vs[0].ID != "t2" {
		t.Fatalf("tool calls %+v %v", vs, err)
	}
	if _, ok, err := s.Sessions.ToolCall("none"); ok || err != nil {
		t.Fatal("a missing tool call")
	}
	c := file(OpWrite, "a", "1")
	c.Actor.Session, c.Actor.Tool = "s0", "Edit"
	apply(t, s, c)
	if err := s.Sessions.NoteReads("s0", "Read", 5, []Path{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	ws, err := s.Sessions.WorkingSet("s0")
	if err != nil || len(ws) != 2 || ws[0].Edits != 1 || ws[0].Reads != 1 || ws[0].EditBy != "Edit" || ws[1].Edits != 0 {
		t.Fatalf("working set %+v %v", ws, err)
	}
	kv := s.KV("x")
	if err := errors.Join(kv.Set("a/1", []byte("v")), kv.Set("a/2", nil), s.KV("xy").Set("a/3", []byte("other"))); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := kv.Scan("a/", func(k string, v []byte) error { n++; return nil }); err != nil || n != 1 {
		t.Fatalf("scan: %d %v", n, err)
	}
	if err := kv.Set("big", make([]byte, maxKV+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("large setting: %v", err)
	}
	if err := errors.Join(s.Notes.NoteGap(Gap{Path: "a", Time: 1, Reason: "r1"}), s.Notes.NoteGap(Gap{Path: "b", Time: 2, Reason: "r2"}), s.Notes.Notice(Notice{Time: 3, Text: "n"})); err != nil {
		t.Fatal(err)
	}
	gs, all, err := s.Notes.Gaps(1)
	if err != nil || len(gs) != 1 || gs[0].Reason != "r2" || all != 2 {
		t.Fatalf("gaps %+v %d %v", gs, all, err)
	}
	if ns, err := s.Notes.Notices(0); err != nil || len(ns) != 1 {
		t.Fatalf("notices %+v %v", ns, err)
	}
}

// A large content is split and read back.
func TestLargeContent(t *testing.T) {
	s := fresh(t)
	text := strings.Repeat(string(noise(testRand(), 1000)), 1) + strings.Repeat("x", 3<<20)
	big := noise(testRand(), 100_000) // 4.9 MB, half of it incompressible
	apply(t, s, file(OpWrite, "t", text), file(OpWrite, "big", string(big)))
	c := file(OpWrite, "huge", "")
	c.Content = make([]byte, s.opt.MaxBlob+1)
	if _, err := s.Apply(context.Background(), []Change{c}, nil); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too large: %v", err)
	}
	big[3_000_000] ^= 1
	apply(t, s, file(OpWrite, "big", string(big)))
	s.contents.Forget()
	if contentOf(t, s, "big") != string(big) || contentOf(t, s, "t") != text {
		t.Fatal("large contents differ")
	}
	checked(t, s)
	d := op(OpMknod, "fifo", "", unix.S_IFIFO|0o600)
	if vs := apply(t, s, d); len(vs) != 1 {
		t.Fatal("a fifo is a version")
	}
}

func BenchmarkCurrent(b *testing.B) {
	s := fresh(b)
	for i := range 3000 {
		apply(b, s, file(OpCreate, Path(fmt.Sprint("f", i)), fmt.Sprint(i)))
	}
	i := 0
	for b.Loop() {
		if _, ok, err := s.Current(Path(fmt.Sprint("f", i%3000))); !ok || err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkContent reads the end of a chain of 16 deltas of a 40 kB file, with empty caches.
func BenchmarkContent(b *testing.B) {
	s := fresh(b)
	text := noise(testRand(), 800)
	for i := range 17 {
		text[i*1000] ^= 1
		apply(b, s, file(OpWrite, "a", string(text)))
	}
	v, _, _ := s.Current("a")
	for b.Loop() {
		s.contents.Forget()
		if _, err := s.Content(v.Blob); err != nil {
			b.Fatal(err)
		}
	}
}

// ChangedAfter reads only the paths of versions, however they are encoded.
func TestChangedAfterNamesThePaths(t *testing.T) {
	s := fresh(t)
	var want []Path
	for i, n := range []int{1, 22, 23, 24, 255, 256, 3000} {
		p := Path(strings.Repeat("x", n))
		op := OpWrite
		if i%2 == 1 {
			op = OpBaseline
		}
		apply(t, s, file(op, p, fmt.Sprint(n)))
		want = append(want, p)
	}
	for after := range s.Seq() + 1 {
		var got []Path
		if err := s.View(func(v *View) error { return v.ChangedAfter(after, func(p Path) { got = append(got, p) }) }); err != nil {
			t.Fatal(err)
		}
		vs, err := s.Since(after, 100)
		if err != nil || len(vs) != len(got) || s.Seq() != uint64(len(want)) {
			t.Fatalf("%d paths of %d versions after %d, %v", len(got), len(vs), after, err)
		}
		for i, v := range vs {
			if got[i] != v.Path {
				t.Errorf("version %d is of %.30q, and %.30q was named", v.Seq, v.Path, got[i])
			}
		}
	}
}

// Changed reads only the versions of a directory's subtree, and only the newest version of a file.
// So a search in the history of one file does not read the histories of all others.
func TestChangedBelowAPath(t *testing.T) {
	s := fresh(t)
	for i := range 40 {
		apply(t, s, file(OpWrite, Path(fmt.Sprintf("d/f%d", i%4)), fmt.Sprint(i)), file(OpWrite, "d.txt", fmt.Sprint("beside ", i)))
	}
	apply(t, s, file(OpBaseline, "d/f1", "found otherwise"), file(OpBaseline, "d/g", "found"))
	for below, n := range map[Path]int{"": 81, "d": 41, "d/f1": 1, "d.txt": 1, "nowhere": 0} {
		got := 0
		err := s.Changed(below, func(v Version) bool {
			if got++; !v.Path.Inside(below) {
				t.Errorf("%q is not inside %q", v.Path, below)
			}
			return true
		})
		if err != nil || got != n {
			t.Errorf("below %q: %d versions, want %d, %v", below, got, n, err)
		}
	}
	if vs, _, err := s.Log(Filter{Path: "d"}); err != nil || len(vs) != 40 {
		t.Errorf("%d versions, %v", len(vs), err)
	}
}
