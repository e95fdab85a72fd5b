package fusefs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTracker: as soon as an operation has returned, the Tracker reports all names that the
// operation affected. If it cannot determine these names, it reports that everything may have
// changed.
func TestTracker(t *testing.T) {
	const everything = "*"
	f := mountTest(t, nil)
	f.rec.quiet = true
	f.sh(`mkdir -p d/e .git/objects; echo 1 > a; echo 2 > b; echo 3 > d/f; echo 4 > d/e/g; ln d/f d/h; echo x > .git/index; touch node.o; ln -s a link; mkdir out; echo 5 > out/l1; ln out/l1 out/l2`)
	f.told()
	keep, err := os.OpenFile(filepath.Join(f.dir, "d/e/g"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	write := func(name, text string, flags int) func() error {
		return func() error {
			file, err := os.OpenFile(filepath.Join(f.dir, name), flags, 0o644)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = file.WriteString(text)
			return err
		}
	}
	at := func(name string) string { return filepath.Join(f.dir, name) }
	poke := func() error { _, err := keep.WriteAt([]byte("!"), 0); return err }
	for _, test := range []struct {
		name string
		do   func() error
		want string
	}{
		{"append", write("a", "x", os.O_WRONLY|os.O_APPEND), "a"},
		{"again", write("a", "x", os.O_WRONLY|os.O_APPEND), "a"},
		{"truncated by open", write("a", "", os.O_WRONLY|os.O_TRUNC), "a"},
		{"opened for writing only", write("a", "", os.O_WRONLY), ""},
		{"create", write("new", "y", os.O_WRONLY|os.O_CREATE|os.O_EXCL), "new"},
		{"ignored or not", write("node.o", "y", os.O_WRONLY), "node.o"},
		{"a file of git's", write(".git/index", "y", os.O_WRONLY), ""},
		{"both names of a file", write("d/h", "y", os.O_WRONLY), "d/f d/h"},
		{"through a handle", poke, "d/e/g"},
		{"twice through a handle", func() error { _ = poke(); return poke() }, "d/e/g"},
		{"truncate", func() error { return os.Truncate(at("a"), 9) }, "a"},
		{"chmod", func() error { return os.Chmod(at("a"), 0o755) }, "a"},
		{"times", func() error { return os.Chtimes(at("b"), time.Unix(1e9, 0), time.Unix(1e9, 0)) }, "b"},
		{"rename", func() error { return os.Rename(at("a"), at("d/a")) }, "a d/a"},
		{"rename over", func() error { return os.Rename(at("d/a"), at("b")) }, "b d/a"},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, at("b"), unix.AT_FDCWD, at("new"), unix.RENAME_EXCHANGE)
		}, "b new"},
		{"link", func() error { return os.Link(at("b"), at("d/b2")) }, "d/b2"},
		{"symlink", func() error { return os.Symlink("a", at("s")) }, "s"},
		{"unlink", func() error { return os.Remove(at("s")) }, "s"},
		{"fifo", func() error { return unix.Mkfifo(at("p"), 0o644) }, "p"},
		{"mkdir and its mode", func() error {
			if err := os.Mkdir(at("m"), 0o755); err != nil {
				return err
			}
			return os.Chmod(at("m"), 0o700)
		}, "m"},
		{"the mode of an old directory", func() error { return os.Chmod(at("m"), 0o755) }, everything},
		{"rmdir", func() error { return os.Remove(at("m")) }, "m"},
		{"removed while open", func() error { return os.Remove(at("d/e/g")) }, "d/e/g"},
		{"then written", poke, ""},
		{"a directory moves", func() error { return os.Rename(at("d/e"), at("e")) }, everything},
		{"in the moved directory", write("e/z", "y", os.O_WRONLY|os.O_CREATE), "e/z"},
		{"a directory of git's moves", func() error { return os.Rename(at(".git/objects"), at(".git/o")) }, ""},
		{"nothing", func() error { return nil }, ""},
		{"reading", func() error { _, err := os.ReadFile(at("b")); return err }, ""},
	} {
		// Ask twice with the same token. The first answer must not make the second incomplete.
		token, _, _ := f.srv.Changes("")
		older := token
		if err := test.do(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		for range 2 {
			_, paths, all := f.srv.Changes(older)
			slices.Sort(paths)
			got := strings.Join(paths, " ")
			if all {
				got = everything
			}
			if got != test.want {
				t.Errorf("%s: told %q, want %q", test.name, got, test.want)
			}
		}
	}
}

// TestChangesUnknownName: a file may have a name that the mount has not seen yet. Then a change of
// the file may concern any path.
func TestChangesUnknownName(t *testing.T) {
	f := mountTest(t, nil)
	f.rec.quiet = true
	f.under("mkdir d; echo 1 > d/one; ln d/one two")
	token, _, _ := f.srv.Changes("")
	f.sh("echo x >> d/one")
	if _, paths, all := f.srv.Changes(token); !all {
		t.Errorf("told %q of a file with another name, not everything", paths)
	}
	token, _, _ = f.srv.Changes("")
	f.sh("cat two; echo x >> d/one")
	if _, paths, all := f.srv.Changes(token); all || len(paths) != 2 {
		t.Errorf("told %q (all: %v), want both names", paths, all)
	}
}

// TestChangesOutside: while some process can write to the source directly, and for a while after,
// the mount reports that everything may have changed. It does the same after it noticed such a
// write.
func TestChangesOutside(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	f.rec.quiet = true
	token, _, all := f.srv.Changes("")
	if token, _, again := f.srv.Changes(token); !all || !again {
		t.Errorf("outside: token %s is believed", token)
	}
	f.srv.SetOutside(false)
	if _, _, _ = f.srv.Changes(""); f.srv.fs.changes.Active() {
		t.Error("trusts what the kernel has cached of before")
	}
	f.srv.fs.aloneSince.Store(nil)
	token, _, _ = f.srv.Changes("")
	if _, _, all = f.srv.Changes(token); all {
		t.Error("alone, and still everything may have changed")
	}
	f.sh("echo 1 > a")
	f.told()
	token, _, _ = f.srv.Changes("")
	f.under("echo 22 > a")
	f.sh("cat a") // the OPEN by cat notices the change
	if _, paths, all := f.srv.Changes(token); !all {
		t.Errorf("told %q after a change underneath was noticed", paths)
	}
	token, _, _ = f.srv.Changes("")
	f.srv.SetOutside(true)
	if _, _, all := f.srv.Changes(token); !all {
		t.Error("certain although somebody came")
	}
}
