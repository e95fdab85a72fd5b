package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// out carries out one plan in dir; contents holds the contents of the write steps, by step number.
func out(t *testing.T, dir string, contents map[int]string, steps ...wire.PlanStep) Result {
	t.Helper()
	fetch := func(_ context.Context, ns []int) ([][]byte, error) {
		if c, ok := contents[ns[0]]; ok {
			return [][]byte{[]byte(c)}, nil
		}
		return nil, errors.New("no such content")
	}
	var told []int
	res, err := Plan(t.Context(), dir, wire.Plan{ID: "p1", Steps: steps}, Work{Fetch: fetch, After: func(n int) error { told = append(told, n); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != len(res.Done) {
		t.Errorf("the journal heard of %v, done were %v", told, res.Done)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".cachebro-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return res
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, text string, elem ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elem...), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWriteReplacesAtomicallyWithExactMode(t *testing.T) {
	dir := t.TempDir()
	write(t, "new", dir, "a")
	held, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	res := out(t, dir, map[int]string{1: "old"}, wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Mode: 0o100751, Mtime: 1_000_000_000_123, Hash: text.Hash([]byte("old")), Expect: text.Hash([]byte("new"))})
	if len(res.Failed) > 0 || read(t, dir, "a") != "old" {
		t.Fatalf("%+v, %q", res, read(t, dir, "a"))
	}
	fi, _ := os.Stat(filepath.Join(dir, "a"))
	if fi.Mode().Perm() != 0o751 || fi.ModTime().UnixNano() != 1_000_000_000_123 {
		t.Errorf("mode %v, time %v", fi.Mode(), fi.ModTime())
	}
	// A process that has the file open still reads the old content, because the file was
	// replaced, not overwritten.
	b := make([]byte, 10)
	if n, _ := held.ReadAt(b, 0); string(b[:n]) != "new" {
		t.Errorf("the open file now reads %q", b[:n])
	}
}

func TestUndoDeleteBringsBackParents(t *testing.T) {
	dir := t.TempDir()
	res := out(t, dir, map[int]string{1: "x", 2: ""},
		wire.PlanStep{N: 1, Do: "write", Path: []byte("d/e/f"), Mode: 0o644, Expect: "absent"},
		wire.PlanStep{N: 2, Do: "write", Path: []byte("d/empty\xff\n"), Mode: 0o600, Expect: "absent"},
		wire.PlanStep{N: 3, Do: "symlink", Path: []byte("d/link"), Target: []byte("e/f"), Expect: "absent"},
		wire.PlanStep{N: 4, Do: "mkdir", Path: []byte("kept"), Mode: 0o40750},
	)
	if len(res.Failed) > 0 {
		t.Fatalf("%+v", res)
	}
	if read(t, dir, "d/link") != "x" || read(t, dir, "d/empty\xff\n") != "" {
		t.Error("contents are wrong")
	}
	if fi, _ := os.Stat(filepath.Join(dir, "kept")); fi.Mode().Perm() != 0o750 {
		t.Errorf("mode of the directory is %v", fi.Mode())
	}
}

// TestNothingIsMovedIntoAnotherDirectory: a directory could not be moved back, because another one
// had its name. The later steps then used to change and remove files in that other directory, and to
// move a file into it.
func TestNothingIsMovedIntoAnotherDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"moved", "home"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "mine", dir, "moved/same")
	write(t, "mine", dir, "home/same")
	write(t, "file", dir, "file")
	res := out(t, dir, map[int]string{4: "old"},
		wire.PlanStep{N: 1, Do: "rename", Path: []byte("moved"), To: []byte("home"), ExpMode: 0o40755},
		wire.PlanStep{N: 2, Do: "rename", Path: []byte("file"), To: []byte("home/file"), ExpMode: 0o100644},
		wire.PlanStep{N: 3, Do: "delete", Path: []byte("home/same"), Expect: text.Hash([]byte("mine"))},
		wire.PlanStep{N: 4, Do: "write", Path: []byte("home/gone"), Mode: 0o644, Expect: "absent"},
		wire.PlanStep{N: 5, Do: "chmod", Path: []byte("home"), Mode: 0o40700, ExpMode: 0o40755},
	)
	if f := res.Failed[0]; string(f.To) != "home" {
		t.Errorf("the failed move names %q as its destination, want home", f.To)
	}
	if len(res.Failed) != 5 || read(t, dir, "file") != "file" || read(t, dir, "home/same") != "mine" || read(t, dir, "moved/same") != "mine" {
		t.Errorf("%+v", res)
	}
	if fi, err := os.Stat(filepath.Join(dir, "home")); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if all, _ := os.ReadDir(filepath.Join(dir, "home")); len(all) != 1 {
		t.Errorf("the other directory holds %v", all)
	}
}

// TestLeavesAloneWhatChanged: between the plan and a step, anybody may have written to the file.
func TestLeavesAloneWhatChanged(t *testing.T) {
	dir := t.TempDir()
	write(t, "by a human", dir, "a")
	write(t, "there again", dir, "b")
	if err := os.Mkdir(filepath.Join(dir, "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	expect := text.Hash([]byte("by the agent"))
	res := out(t, dir, map[int]string{1: "old", 2: "old", 3: "old"},
		wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Expect: expect},
		wire.PlanStep{N: 2, Do: "write", Path: []byte("b"), Expect: "absent"},
		wire.PlanStep{N: 3, Do: "write", Path: []byte("c"), Expect: expect},
		wire.PlanStep{N: 4, Do: "delete", Path: []byte("a"), Expect: expect},
		wire.PlanStep{N: 5, Do: "delete", Path: []byte("gone"), Expect: expect},
	)
	if len(res.Done) > 0 || len(res.Failed) != 5 {
		t.Fatalf("%+v", res)
	}
	if read(t, dir, "a") != "by a human" || read(t, dir, "b") != "there again" {
		t.Error("something was overwritten")
	}
}

// TestNeverLeavesTheProject: a symlink placed in the path must not lead a write out of the
// project.
func TestNeverLeavesTheProject(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, "safe", outside, "f")
	if err := os.Symlink(outside, filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	res := out(t, dir, map[int]string{1: "x", 2: "x", 3: "x"},
		wire.PlanStep{N: 1, Do: "write", Path: []byte("d/f")},
		wire.PlanStep{N: 2, Do: "write", Path: []byte("../" + filepath.Base(outside) + "/f")},
		wire.PlanStep{N: 3, Do: "write", Path: []byte(filepath.Join(outside, "f"))},
		wire.PlanStep{N: 4, Do: "delete", Path: []byte("d/f")},
	)
	if len(res.Done) > 0 || read(t, outside, "f") != "safe" {
		t.Fatalf("%+v, %q", res, read(t, outside, "f"))
	}
}

func TestHardLinksStayLinked(t *testing.T) {
	dir := t.TempDir()
	write(t, "new", dir, "a")
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	res := out(t, dir, map[int]string{1: "old"}, wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Mode: 0o644})
	if len(res.Failed) > 0 || read(t, dir, "b") != "old" {
		t.Fatalf("%+v, the other name reads %q", res, read(t, dir, "b"))
	}
}

// Because of ln -f, b is another name of the file a. The plan restores b as a separate file, and a
// and c remain one file.
func TestHardLinksAreParted(t *testing.T) {
	dir := t.TempDir()
	write(t, "new", dir, "a")
	for _, name := range []string{"b", "c"} {
		if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	res := out(t, dir, map[int]string{1: "b's", 2: "old"},
		wire.PlanStep{N: 1, Do: "write", Path: []byte("b"), Mode: 0o644, Apart: true},
		wire.PlanStep{N: 2, Do: "write", Path: []byte("a"), Mode: 0o644},
		wire.PlanStep{N: 3, Do: "link", Path: []byte("c"), To: []byte("a")},
		wire.PlanStep{N: 4, Do: "link", Path: []byte("b"), To: []byte("a")},
	)
	if len(res.Done) != 3 || len(res.Failed) != 1 || read(t, dir, "a") != "old" || read(t, dir, "b") != "b's" || read(t, dir, "c") != "old" {
		t.Fatalf("%+v: %q %q %q", res, read(t, dir, "a"), read(t, dir, "b"), read(t, dir, "c"))
	}
}

// A link step makes a path another name of a file again. The path must hold nothing or the expected
// content, and the file must have the right content.
func TestLinkMakesAName(t *testing.T) {
	dir := t.TempDir()
	write(t, "kept", dir, "a")
	write(t, "other", dir, "changed")
	write(t, "theirs", dir, "c")
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "own", dir, "d", "own")
	link := func(n int, path, to, expect string) wire.PlanStep {
		if expect != "absent" {
			expect = text.Hash([]byte(expect))
		}
		return wire.PlanStep{N: n, Do: "link", Path: []byte(path), To: []byte(to), Hash: text.Hash([]byte("kept")), Expect: expect}
	}
	res := out(t, dir, nil, link(1, "d/new", "a", "absent"), link(2, "d/own", "d/new", "own"), link(3, "b", "changed", "absent"), link(4, "c", "a", "mine"))
	if !slices.Equal(res.Done, []int{1, 2}) || len(res.Failed) != 2 {
		t.Fatalf("%+v", res)
	}
	a, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/new", "d/own"} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || !os.SameFile(a, fi) {
			t.Errorf("%s is another file: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "b")); err == nil || read(t, dir, "c") != "theirs" {
		t.Error("what was not expected was changed")
	}
}

func TestRenameChmodRmdir(t *testing.T) {
	dir := t.TempDir()
	write(t, "x", dir, "a")
	write(t, "y", dir, "taken")
	for _, d := range []string{"empty", "full"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "z", dir, "full/z")
	res := out(t, dir, nil,
		wire.PlanStep{N: 1, Do: "rename", Path: []byte("a"), To: []byte("taken")},
		wire.PlanStep{N: 2, Do: "rename", Path: []byte("a"), To: []byte("n/b")},
		wire.PlanStep{N: 3, Do: "chmod", Path: []byte("n/b"), Mode: 0o104711},
		wire.PlanStep{N: 4, Do: "rmdir", Path: []byte("full")},
		wire.PlanStep{N: 5, Do: "rmdir", Path: []byte("empty")},
		wire.PlanStep{N: 6, Do: "frobnicate", Path: []byte("n/b")},
	)
	if len(res.Done) != 3 || len(res.Failed) != 3 || len(res.Left) != 1 {
		t.Fatalf("%+v", res)
	}
	// A process may still have it open for writing.
	fi, err := os.Stat(filepath.Join(dir, "n/b"))
	if err != nil || fi.Mode().Perm() != 0o711 || fi.Mode()&os.ModeSetuid != 0 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// A set-id bit is restored only on a new file with exactly the owner that had it. On a directory,
// the bit only decides to whom new files belong.
func TestSetIDComesWithItsOwner(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	for name, c := range map[string]struct {
		owned    bool
		uid, gid uint32
		want     fs.FileMode
		left     int
	}{
		"the owner":      {true, uid, gid, setID, 0},
		"nobody known":   {false, 0, 0, 0, 2},
		"somebody else":  {true, uid + 1234, gid, fs.ModeSetgid, 2},
		"another group":  {true, uid, gid + 1234, fs.ModeSetuid, 2},
		"neither of two": {true, uid + 1, gid + 1234, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if uid == 0 && c.left > 0 && c.owned {
				c.want, c.left = setID, 0 // root may set them
			}
			for _, large := range []int{1, 2 << 20} {
				dir := t.TempDir()
				content := strings.Repeat("x", large)
				res := out(t, dir, map[int]string{1: content}, wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Expect: "absent", Mode: 0o106755,
					Size: int64(large), Hash: text.Hash([]byte(content)), Owned: c.owned, UID: c.uid, GID: c.gid})
				fi, err := os.Lstat(filepath.Join(dir, "a"))
				if err != nil || fi.Mode() != c.want|0o755 || len(res.Left) != c.left || len(res.Done) != 1 {
					t.Errorf("%v, want %v (%v); left %+v", fi.Mode(), c.want|0o755, err, res.Left)
				}
			}
		})
	}
}

func TestWrongStoredContentIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, "now", dir, "a")
	res := out(t, dir, map[int]string{1: "rotten"}, wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Hash: text.Hash([]byte("good"))})
	if len(res.Failed) != 1 || !strings.Contains(res.Failed[0].Why, "hash") || read(t, dir, "a") != "now" {
		t.Fatalf("%+v", res)
	}
}

// A step waits for earlier steps that affect its path. Here a file makes room for a directory, more
// nested directories are made than may be open at once, and steps follow a removal.
func TestStepsWaitForThoseTheyMeet(t *testing.T) {
	dir := t.TempDir()
	write(t, "in the way", dir, "d")
	contents, n := map[int]string{}, 0
	var steps []wire.PlanStep
	add := func(s wire.PlanStep) *wire.PlanStep {
		n++
		s.N = n
		steps = append(steps, s)
		return &steps[n-1]
	}
	add(wire.PlanStep{Do: "delete", Path: []byte("d"), Expect: text.Hash([]byte("in the way"))})
	add(wire.PlanStep{Do: "mkdir", Path: []byte("d"), Mode: 0o40755, Expect: "absent"})
	var files []string
	for i := range maxOpen + 50 {
		sub := fmt.Sprintf("d/%03d", i)
		add(wire.PlanStep{Do: "mkdir", Path: []byte(sub), Mode: 0o40755, Expect: "absent"})
		add(wire.PlanStep{Do: "mkdir", Path: []byte(sub + "/in"), Mode: 0o40755, Expect: "absent"})
		files = append(files, sub+"/f", sub+"/in/f")
	}
	for _, f := range files {
		contents[n+1] = "text of " + f
		add(wire.PlanStep{Do: "write", Path: []byte(f), Mode: 0o644, Expect: "absent"})
	}
	add(wire.PlanStep{Do: "delete", Path: []byte("d/000/in/f")})
	add(wire.PlanStep{Do: "rmdir", Path: []byte("d/000/in")})
	add(wire.PlanStep{Do: "rename", Path: []byte("d/000"), To: []byte("moved")})
	contents[n+1] = "made last"
	add(wire.PlanStep{Do: "write", Path: []byte("moved/in"), Mode: 0o644, Expect: "absent"})
	if res := out(t, dir, contents, steps...); len(res.Failed) > 0 || len(res.Done) != n {
		t.Fatalf("%d of %d done, %+v", len(res.Done), n, res.Failed)
	}
	if read(t, dir, "moved", "in") != "made last" {
		t.Error("the last file is wrong")
	}
	for _, f := range files[2:] {
		if got := read(t, dir, f); got != "text of "+f {
			t.Errorf("%s reads %q", f, got)
		}
	}
}

// A process that is killed while it writes a file under its final name leaves an incomplete file.
// Whoever resumes the plan writes that file again, but leaves a file with any other text alone. If
// the plan is not resumed, nothing is changed. A file with several names is always written under
// its final name. Such a file used to stay empty, and the next undo reported it as changed by
// others.
func TestResumeOfABegunFile(t *testing.T) {
	for _, c := range []struct {
		name, there string
		resume      bool
		want        string
	}{
		{"beginning", "con", true, "content"},
		{"empty", "", true, "content"},
		{"whole, without its time", "content", true, "content"},
		{"another", "other", true, "other"},
		{"not resumed", "con", false, "con"},
	} {
		for _, expect := range []string{"absent", text.Hash([]byte("before"))} {
			dir := t.TempDir()
			write(t, c.there, dir, "f")
			if expect != "absent" {
				if err := os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "other name")); err != nil {
					t.Fatal(err)
				}
			}
			at := time.Unix(1600000000, 5000)
			step := wire.PlanStep{N: 1, Do: "write", Path: []byte("f"), Mode: 0o644, Expect: expect, Hash: text.Hash([]byte("content")), Size: 7, Mtime: at.UnixNano()}
			p := wire.Plan{ID: "p1", Begun: time.Now(), Resume: c.resume, Steps: []wire.PlanStep{step}}
			res, err := Plan(t.Context(), dir, p, Work{
				Fetch: func(context.Context, []int) ([][]byte, error) { return [][]byte{[]byte("content")}, nil },
				After: func(int) error { return nil },
			})
			if err != nil || read(t, dir, "f") != c.want || (len(res.Done) == 1) != (c.want == "content") {
				t.Errorf("%s, before it %s: %v %+v, %q", c.name, expect, err, res, read(t, dir, "f"))
			}
			if fi, err := os.Stat(filepath.Join(dir, "f")); err != nil || fi.ModTime().Equal(at) != (c.want == "content") {
				t.Errorf("%s, before it %s: time %v, %v", c.name, expect, fi.ModTime(), err)
			}
		}
	}
}

// An exchange of a file and a directory failed because the file is gone, and the plan is resumed. The
// check whether the exchange was done already used to dereference the attributes of the missing file.
func TestResumeOfAnExchangeWhoseFileIsGone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	step := wire.PlanStep{N: 1, Do: "exchange", Path: []byte("f"), To: []byte("d"), ExpMode: syscall.S_IFREG | 0o644}
	res, err := Plan(t.Context(), dir, wire.Plan{ID: "p1", Begun: time.Now(), Resume: true, Steps: []wire.PlanStep{step}}, Work{After: func(int) error { return nil }})
	if err != nil || len(res.Failed) != 1 || len(res.Done) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A file without content is identified by its kind, and a link by its target as well. If somebody
// has put another file there since the plan was made, that file stays, even if no mount has
// recorded it.
func TestOtherKindIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"link", "relinked", "pipe", "moved", "same"} {
		write(t, "x", dir, name)
	}
	if err := errors.Join(os.Symlink("elsewhere", filepath.Join(dir, "pointed")), os.Symlink("x", filepath.Join(dir, "still"))); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(filepath.Join(dir, "same"))
	if err != nil {
		t.Fatal(err)
	}
	link, is := text.Hash([]byte("x")), uint32(syscall.S_IFLNK|0o777)
	res := out(t, dir, nil,
		wire.PlanStep{N: 1, Do: "delete", Path: []byte("link"), Expect: link, ExpMode: is},
		wire.PlanStep{N: 2, Do: "symlink", Path: []byte("relinked"), Target: []byte("y"), Expect: link, ExpMode: is},
		wire.PlanStep{N: 3, Do: "delete", Path: []byte("pipe"), ExpMode: syscall.S_IFIFO | 0o644},
		wire.PlanStep{N: 4, Do: "delete", Path: []byte("pointed"), Expect: link, ExpMode: is},
		wire.PlanStep{N: 5, Do: "rename", Path: []byte("moved"), To: []byte("back"), ExpMode: syscall.S_IFREG | 0o644, Size: 1, Mtime: 1},
		wire.PlanStep{N: 6, Do: "delete", Path: []byte("still"), Expect: link, ExpMode: is},
		wire.PlanStep{N: 7, Do: "rename", Path: []byte("same"), To: []byte("so"), ExpMode: syscall.S_IFREG | 0o644, Size: 1, Mtime: fi.ModTime().UnixNano()})
	if len(res.Failed) != 5 || !slices.Equal(res.Done, []int{6, 7}) {
		t.Errorf("done %v, failed %v", res.Done, res.Failed)
	}
	for _, name := range []string{"link", "relinked", "pipe", "moved", "so"} {
		if got := read(t, dir, name); got != "x" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// A write replaces the file. The file's extended attributes, which are in no history, used to be
// lost in an undo, and the redo did not restore them.
func TestWriteKeepsAttributes(t *testing.T) {
	dir := t.TempDir()
	write(t, "new", dir, "a")
	if err := unix.Setxattr(filepath.Join(dir, "a"), "user.label", []byte("mine"), 0); err != nil {
		t.Skip(err)
	}
	res := out(t, dir, map[int]string{1: "old"}, wire.PlanStep{N: 1, Do: "write", Path: []byte("a"), Mode: syscall.S_IFREG | 0o600, Expect: text.Hash([]byte("new"))})
	if len(res.Done) != 1 || read(t, dir, "a") != "old" {
		t.Fatalf("%+v, %q", res, read(t, dir, "a"))
	}
	b := make([]byte, 10)
	if n, err := unix.Getxattr(filepath.Join(dir, "a"), "user.label", b); err != nil || string(b[:n]) != "mine" {
		t.Errorf("%q, %v", b[:max(n, 0)], err)
	}
}

// An ordinary user can change nothing in a root that is not writable, so the steps run in order.
func TestModeOfRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, "x", dir, "x")
	res := out(t, dir, map[int]string{2: "y"},
		wire.PlanStep{N: 1, Do: "chmod", Mode: 0o40751, ExpMode: 0o40755},
		wire.PlanStep{N: 2, Do: "write", Path: []byte("y"), Expect: "absent"},
		wire.PlanStep{N: 3, Do: "chmod", Mode: 0o40500, ExpMode: 0o40751})
	fi, err := os.Stat(dir)
	if err != nil || len(res.Done) != 3 || fi.Mode().Perm() != 0o500 || read(t, dir, "y") != "y" {
		t.Errorf("%v, %+v, %v", err, res, fi.Mode())
	}
}

// The next git command runs programs that are in a git directory. So no plan, wherever it comes
// from, writes there or outside of the project.
func TestNeverIntoGitOrElsewhere(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "p")
	for _, d := range []string{"p/.git/hooks", "p/sub/.git/hooks", "p/bare/objects", "p/bare/refs", "p/bare/hooks", "p/.GIT/hooks", "p/git~1/hooks", "p/wt", "p/plain", "out"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "ref: refs/heads/main\n", dir, "bare/HEAD")
	write(t, "ref: refs/heads/main\n", dir, "wt/HEAD")
	write(t, "..\n", dir, "wt/commondir")
	write(t, "x", dir, "plain/x")
	for link, to := range map[string]string{"link": ".git", "away": "../out", "hooks": ".git/hooks"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t, base)
	for _, p := range []string{".git/hooks/x", ".git/config", "sub/.git/hooks/x", "bare/hooks/x", "bare/config", "wt/config", ".GIT/hooks/x", "git~1/hooks/x", ".git",
		"link/config", "link/hooks/x", "hooks/x", "away/x", "../out/x", "/" + base + "/out/x", "plain/../.git/x", "plain/../../out/x", "new/.git/hooks/x", "plain//x", ""} {
		for _, step := range []wire.PlanStep{
			{Do: "write", Path: []byte(p), Expect: "absent"}, {Do: "write", Path: []byte(p)}, {Do: "mkdir", Path: []byte(p)}, {Do: "symlink", Path: []byte(p), Target: []byte("t")},
			{Do: "rename", Path: []byte("plain/x"), To: []byte(p)}, {Do: "exchange", Path: []byte("plain"), To: []byte(p)}, {Do: "rename", Path: []byte(p), To: []byte("new")}, {Do: "chmod", Path: []byte(p), Mode: 0o100777},
			{Do: "delete", Path: []byte(p)}, {Do: "rmdir", Path: []byte(p)}, {Do: "link", Path: []byte(p), To: []byte("plain/x")},
		} {
			step.N = 1
			if res := out(t, dir, map[int]string{1: "evil"}, step); len(res.Done) > 0 || len(res.Failed) != 1 {
				t.Errorf("%s %q -> %q: %+v", step.Do, step.Path, step.To, res)
			}
			if after := listing(t, base); after != before {
				t.Fatalf("%s %q -> %q:\n%s\nbefore:\n%s", step.Do, step.Path, step.To, after, before)
			}
		}
	}
	// A repository that the plan itself restores is restored completely.
	if res := out(t, dir, map[int]string{4: "ref: refs/heads/main\n", 5: "c"}, wire.PlanStep{N: 1, Do: "mkdir", Path: []byte("b2"), Expect: "absent"}, wire.PlanStep{N: 2, Do: "mkdir", Path: []byte("b2/objects"), Expect: "absent"},
		wire.PlanStep{N: 3, Do: "mkdir", Path: []byte("b2/refs"), Expect: "absent"}, wire.PlanStep{N: 4, Do: "write", Path: []byte("b2/HEAD"), Expect: "absent"}, wire.PlanStep{N: 5, Do: "write", Path: []byte("b2/config"), Expect: "absent"}); len(res.Done) != 5 {
		t.Errorf("%+v", res)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		fmt.Fprintf(&b, "%s %s\n", p, fi.Mode())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The owner and mode of a link used to be set on the file to which the link points, which everybody
// could then read and write.
func TestOwnerOfALinkIsTheLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, "x", dir, "file")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if uid == 0 {
		uid, gid = 1001, 1002
	}
	res := out(t, dir, nil, wire.PlanStep{N: 1, Do: "chmod", Path: []byte("link"), Mode: 0o120777, Owned: true, UID: uid, GID: gid})
	if len(res.Done) != 1 || len(res.Left) > 0 {
		t.Errorf("%+v", res)
	}
	var file, link unix.Stat_t
	if err := errors.Join(unix.Lstat(filepath.Join(dir, "file"), &file), unix.Lstat(filepath.Join(dir, "link"), &link)); err != nil {
		t.Fatal(err)
	}
	if file.Mode&0o777 != 0o644 || file.Uid != uint32(os.Getuid()) || link.Uid != uid || link.Gid != gid {
		t.Errorf("file %o of %d, link of %d:%d", file.Mode, file.Uid, link.Uid, link.Gid)
	}
}

// After a directory was checked and before it is opened, somebody may replace it by a link.
func TestNoLinkIsFollowedThatWasSwappedIn(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
			_ = os.Symlink(".git", filepath.Join(dir, "a"))
			_ = os.Remove(filepath.Join(dir, "a"))
			_ = os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a"))
		}
	}()
	for n := range 300 {
		_, _ = Plan(t.Context(), dir, wire.Plan{ID: "p1", Steps: []wire.PlanStep{{N: 1, Do: "write", Path: fmt.Appendf(nil, "a/f%d", n), Expect: "absent"}}},
			Work{Fetch: func(context.Context, []int) ([][]byte, error) { return [][]byte{[]byte("evil")}, nil }, After: func(int) error { return nil }})
	}
	close(stop)
	<-ended
	if names, err := os.ReadDir(filepath.Join(dir, ".git")); err != nil || len(names) > 0 {
		t.Errorf("in .git: %v, %v", names, err)
	}
}

// TestStepsWait covers two undos that now and then left files behind. In one, a directory became
// read-only while files were still being written into it. In the other, a file got its former
// content while another name of it was compared with the present content before its deletion.
func TestStepsWait(t *testing.T) {
	for name, steps := range map[string][]wire.PlanStep{
		"a directory's mode waits for the files in it": {
			{N: 1, Do: "write", Path: []byte("d/e/a"), Mode: 0o100644, Expect: "absent"},
			{N: 2, Do: "chmod", Path: []byte("d"), Mode: 0o40555},
		},
		"a content waits for the deletion of other names of its file": {
			{N: 1, Do: "delete", Path: []byte("d/b")},
			{N: 2, Do: "write", Path: []byte("c"), Mode: 0o100644, Expect: "absent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "d/e"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, "", dir, "d/b")
			p := wire.Plan{ID: "p1", Steps: steps}
			work := Work{
				Fetch: func(_ context.Context, ns []int) ([][]byte, error) { return make([][]byte, len(ns)), nil },
				After: func(int) error { return nil },
			}
			c := &execution{plan: &p, work: work, places: newPlaces(root, &p), done: map[int]bool{}, unfit: map[string]string{}}
			defer c.places.close()
			n, err := c.stretch(t.Context(), steps)
			if err != nil || n != 1 || len(c.res.Failed) > 0 {
				t.Errorf("%d steps ran together: %v, %+v", n, err, c.res)
			}
		})
	}
}
