package versions

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/wire"
)

func TestFind(t *testing.T) {
	s := storetest.Fresh(t)
	v := storetest.Apply(t, s, storetest.Closed(store.OpCreate, "d/a", "1\n"), storetest.Closed(store.OpWrite, "d/a", "2\n"),
		storetest.Closed(store.OpCreate, "b", "b\n"), storetest.Closed(store.OpWrite, "d/a", "3\n"))
	for _, c := range []struct {
		path   store.Path
		q      wire.ShowQuery
		seq    uint64
		number int
	}{
		{"d/a", wire.ShowQuery{}, v[3].Seq, 3},
		{"d/a", wire.ShowQuery{Number: 1}, v[0].Seq, 1},
		{"d/a", wire.ShowQuery{Number: -1}, v[1].Seq, 2},
		{"d/a", wire.ShowQuery{Seq: v[1].Seq}, v[1].Seq, 0},
		{"", wire.ShowQuery{Seq: v[2].Seq}, v[2].Seq, 0},
		{"d/a", wire.ShowQuery{At: v[1].When()}, v[1].Seq, 2},
		{"d/a", wire.ShowQuery{Seq: v[2].Seq}, v[1].Seq, 2}, // a version number of another file
	} {
		got, n, err := Find(s, c.path, c.q)
		if err != nil || got.Seq != c.seq || n != c.number {
			t.Errorf("%q %+v: #%d, number %d, %v; want #%d, %d", c.path, c.q, got.Seq, n, err, c.seq, c.number)
		}
	}
	for _, c := range []struct {
		path store.Path
		q    wire.ShowQuery
		want error
	}{
		{"", wire.ShowQuery{}, wire.ErrBadRequest},
		{"d", wire.ShowQuery{}, wire.ErrIsDir},
		{"nothing", wire.ShowQuery{}, wire.ErrNotFound},
		{"d/a", wire.ShowQuery{Number: 4}, wire.ErrNotFound},
		{"d/a", wire.ShowQuery{Number: -3}, wire.ErrNotFound},
		{"b", wire.ShowQuery{Seq: v[0].Seq}, wire.ErrNotFound},
		{"d/a", wire.ShowQuery{At: v[0].When().Add(-time.Hour)}, wire.ErrNotFound},
	} {
		if got, _, err := Find(s, c.path, c.q); !errors.Is(err, c.want) {
			t.Errorf("%q %+v: #%d, %v; want %v", c.path, c.q, got.Seq, err, c.want)
		}
	}
}

func TestContentThatIsNotThere(t *testing.T) {
	s := storetest.Fresh(t)
	large := storetest.Closed(store.OpWrite, "large", "")
	large.HasContent, large.NoContent = false, "too large"
	v := storetest.Apply(t, s, storetest.Told(store.OpMkdir, "d", "", storetest.DirMode), large)
	if _, err := Content(s, v[0]); !errors.Is(err, wire.ErrIsDir) {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Content(s, v[1]); !errors.Is(err, wire.ErrPruned) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a version without content: %v", err)
	}
}

func TestWriteDiff(t *testing.T) {
	file := func(text string) Side {
		return Side{Path: "a b", Exists: true, Mode: storetest.FileMode, Data: []byte(text)}
	}
	exec, moved := file("1\n"), file("1\n")
	exec.Mode |= 0o111
	moved.Path = "c"
	for name, c := range map[string]struct {
		from, to Side
		want     string
		files    int
	}{
		"nothing":        {file("1\n"), file("1\n"), "", 0},
		"neither exists": {Side{Path: "a"}, Side{Path: "a"}, "", 0},
		"new":            {Side{Path: "a b"}, file("1\n"), "diff --git a/a b b/a b\nnew file mode 100644\n--- /dev/null\n+++ b/a b\n@@ -0,0 +1,1 @@\n+1\n", 1},
		"deleted":        {file("1\n"), Side{Path: "a b"}, "diff --git a/a b b/a b\ndeleted file mode 100644\n--- a/a b\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n", 1},
		"mode":           {file("1\n"), exec, "diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n", 1},
		"renamed":        {file("1\n"), moved, "diff --git a/a b b/c\nrename from a b\nrename to c\n", 1},
		"binary":         {file("\x00"), file("\x00\x01"), "diff --git a/a b b/a b\nindex f76dd238ade08917e6712764a16a22005a50573d..bdc955b7b2e610ad5a72302b139a2e6cb325519a\nBinary files a/a b and b/a b differ\n", 1},
	} {
		var out bytes.Buffer
		var a wire.DiffAnswer
		WriteDiff(&out, &a, c.from, c.to, 3)
		if out.String() != c.want || a.Files != c.files {
			t.Errorf("%s: %d files\n%s\nwant %d\n%s", name, a.Files, out.String(), c.files, c.want)
		}
	}
}
