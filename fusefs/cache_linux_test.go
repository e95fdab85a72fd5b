package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// ext4 gives the inode number of a deleted file to the next new file. When the table of inodes did
// not compare birth times, a reader of the new file got pages of the old one.
func TestInodeNumberReuse(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	reused := 0
	for i := range 200 {
		name := fmt.Sprintf("new%d", i)
		f.write("old", strings.Repeat("o", 5000))
		if f.read("old") == "" {
			t.Fatal("old file is empty")
		}
		var was, is unix.Stat_t
		if err := unix.Stat(filepath.Join(f.dir, "old"), &was); err != nil {
			t.Fatal(err)
		}
		// Remove it in the source, so that the mount does not learn of the removal.
		if err := os.Remove(filepath.Join(f.src, "old")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.src, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := f.read(name); got != name {
			t.Fatalf("%s reads %.20q", name, got)
		}
		if err := unix.Stat(filepath.Join(f.dir, name), &is); err != nil {
			t.Fatal(err)
		}
		if is.Ino == was.Ino {
			reused++
		}
		// The mount may trust the name "old" for another second. A removal through the mount makes
		// it forget the name.
		_ = os.Remove(filepath.Join(f.dir, "old"))
	}
	t.Logf("%d of 200 numbers were used again", reused)
}

// A file changes in the source. The first read after the next open must return the whole file,
// however its size changed. When the kernel was not notified before the reply to OPEN, the text was
// cut at the old length.
func TestChangeUnderneath(t *testing.T) {
	for _, outside := range []bool{true, false} {
		t.Run(fmt.Sprintf("outside=%v", outside), func(t *testing.T) {
			f := mountTest(t, func(o *Options) { o.Outside = outside })
			f.write("a", "first")
			f.read("a")
			for i, s := range []string{"much longer than first", "short", "shorT", "", strings.Repeat("x", 10000), "y"} {
				time.Sleep(5 * time.Millisecond) // longer than a tick of the file system's clock
				if err := os.WriteFile(filepath.Join(f.src, "a"), []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
				if got := f.read("a"); got != s {
					t.Errorf("change %d: read %.30q, want %.30q", i, got, s)
				}
			}
			var told int
			for _, c := range f.rec.take() {
				if strings.HasPrefix(c, "outside a ") {
					told++
				}
			}
			if told == 0 {
				t.Error("no change was reported to the observer")
			}
		})
	}
}

// A write, chmod, link or rename through the mount is never reported as a change by somebody else.
func TestOwnChangesAreNotOutside(t *testing.T) {
	f := mountTest(t, nil)
	f.sh(`for i in 1 2 3 4 5 6 7 8; do
		echo $i > a; cat a; chmod 600 a; cat a; echo $i >> a; ln a b; cat b; mv b c; cat c a; rm c; cat a
		touch -d 2001-01-01 a; cat a; truncate -s 1 a; cat a; cp -p a d; mv d a; cat a
	done`)
	for _, c := range f.rec.take() {
		if strings.HasPrefix(c, "outside") {
			t.Error(c)
		}
	}
}

// The kernel remembers that a name is absent. A new file of that name is seen at once if it is made
// through the mount, and after a second if it is made in the source.
func TestAbsentNames(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	name := filepath.Join(f.dir, "a")
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	before := f.srv.Stats().Requests["lookup"]
	for range 10 {
		_, _ = os.Stat(name)
	}
	if n := f.srv.Stats().Requests["lookup"] - before; n > 2 {
		t.Errorf("%d lookups of a name known to be absent", n)
	}
	f.write("a", "x")
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	f.under("echo y > b")
	eventually(t, "a file that was made underneath is found", func() bool {
		b, err := os.ReadFile(filepath.Join(f.dir, "b"))
		return err == nil && string(b) == "y\n"
	})
	if got := names(t, f.dir); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("listed %q", got)
	}
}

// Once a process is known to write in the source, cached data that was valid for an hour is valid
// for at most a second.
func TestSetOutside(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("mkdir d; echo x > d/a; cat d/a; ls d; test ! -e d/b")
	f.under("echo y > d/b; echo longer > d/a; mkdir d/c")
	f.srv.SetOutside(true)
	if got := f.sh("cat d/a d/b; stat -c %s d/a"); got != "longer\ny\n7\n" {
		t.Errorf("read %q", got)
	}
	f.under("rm d/b; mv d/c d/e")
	eventually(t, "only a and e are listed", func() bool {
		return slices.Equal(names(t, filepath.Join(f.dir, "d")), []string{"a", "e"})
	})
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var n []string
	for _, e := range all {
		n = append(n, e.Name())
	}
	return n
}

// Half of a thousand files are deleted while a reader is in the middle of the listing. When offsets
// counted entries, the reader missed 106 of the remaining files.
func TestListingWhileDeleting(t *testing.T) {
	f := mountTest(t, nil)
	f.rec.quiet = true
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(f.src, fmt.Sprintf("stay%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.src, fmt.Sprintf("go%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seen := map[string]int{}
	buf, gone := make([]byte, 2048), 0
	for {
		n, err := unix.Getdents(int(d.Fd()), buf)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for rest := buf[:n]; len(rest) > 0; {
			e, size := sys.ParseDirent(rest)
			seen[e.Name]++
			rest = rest[size:]
		}
		for ; gone < 1000 && gone < len(seen); gone++ {
			if err := os.Remove(filepath.Join(f.dir, fmt.Sprintf("go%d", gone))); err != nil {
				t.Fatal(err)
			}
		}
	}
	missing := 0
	for i := range 1000 {
		if seen[fmt.Sprintf("stay%d", i)] == 0 {
			missing++
		}
	}
	for name, n := range seen {
		if n > 1 {
			t.Errorf("%s was listed %d times", name, n)
		}
	}
	if missing > 0 {
		t.Errorf("%d of 1,000 names were not listed", missing)
	}
	if gone == 0 {
		t.Error("nothing was deleted")
	}
}

// The inode numbers in a listing and in stat are those of the source.
func TestRealInodeNumbers(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("mkdir d; touch d/a d/b; ln -s a d/c")
	if on, under := f.sh("ls -i d; stat -c %i d d/a d/c"), f.under("ls -i d; stat -c %i d d/a d/c"); on != under {
		t.Errorf("mount:\n%ssource:\n%s", on, under)
	}
}

// A file that is open keeps its content when it is removed or replaced, on the mount or in the
// source.
func TestOpenFilesSurvive(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	want := bytes.Repeat([]byte("0123456789"), 50000)
	for _, how := range []string{"rm a", "echo new > b; mv b a", "UNDER rm a"} {
		f.write("a", string(want))
		h, err := os.Open(filepath.Join(f.dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if script, ok := strings.CutPrefix(how, "UNDER "); ok {
			f.under(script)
		} else {
			f.sh(how)
		}
		got := make([]byte, len(want))
		if _, err := h.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", how, err)
		}
		if st, err := h.Stat(); err != nil || st.Size() != int64(len(want)) {
			t.Errorf("%s: stat %v, %v", how, st, err)
		}
		h.Close()
		time.Sleep(outsideTTL) // until the kernel no longer trusts the removed name
	}
}

// While a file is saved atomically again and again, every reader gets one complete version. An OPEN
// that arrives after the rename is for an inode that has no name any more. It used to fail with
// ESTALE.
func TestReadersOfAtomicSaves(t *testing.T) {
	f := mountTest(t, nil)
	f.rec.quiet = true
	f.write("a", "0000000000")
	saver := f.enter(helperCmd("saver", "a", "2000"))
	done := make(chan error, 1)
	go func() { done <- saver.Run() }()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d reads", reads)
			return
		default:
		}
		b, err := os.ReadFile(filepath.Join(f.dir, "a"))
		if err != nil {
			t.Errorf("read %d: %v", reads, err)
		} else if len(b) != 10 || strings.Trim(string(b), string(b[:1])) != "" {
			t.Errorf("read %d: %q", reads, b)
		}
		_, err = os.Stat(filepath.Join(f.dir, "a"))
		if err != nil {
			t.Errorf("stat %d: %v", reads, err)
		}
	}
}

func init() {
	helpers["saver"] = func(args []string) error {
		n := 0
		if _, err := fmt.Sscan(args[1], &n); err != nil {
			return err
		}
		for i := range n {
			if err := os.WriteFile(args[0]+".tmp", bytes.Repeat([]byte{byte('0' + i%10)}, 10), 0o644); err != nil {
				return err
			}
			if err := os.Rename(args[0]+".tmp", args[0]); err != nil {
				return err
			}
		}
		return nil
	}
}

// A process whose working directory is removed sees an empty directory in which it can create
// nothing, as on any other file system.
func TestStandingInRemovedDirectory(t *testing.T) {
	f := mountTest(t, nil)
	script := `mkdir d; cd d; touch a; ls; rm a; rmdir ../d; stat -c %h .; ls; ls a 2>/dev/null || echo none; touch b 2>/dev/null || echo no`
	if on, under := f.sh(script), f.under(script); on != under {
		t.Errorf("mount:\n%ssource:\n%s", on, under)
	}
}

// A directory that is renamed in the source is found by its new name.
func TestDirectoryMovedUnderneath(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	f.sh("mkdir -p d/e; echo x > d/e/a; cat d/e/a")
	f.under("mv d g")
	eventually(t, "the old name is gone", func() bool {
		_, err := os.Stat(filepath.Join(f.dir, "d"))
		return errors.Is(err, os.ErrNotExist)
	})
	if got := f.sh("cat g/e/a; test ! -e d; echo y > g/e/a; cat g/e/a"); got != "x\ny\n" {
		t.Errorf("read %q", got)
	}
}

// The state directory inside the project can be neither seen nor accessed.
func TestHidden(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Hidden = "sub/.cachebro" })
	f.under("mkdir -p sub/.cachebro; echo secret > sub/.cachebro/store")
	if got := f.sh("ls -A sub; ls sub/.cachebro 2>&1 || true; mkdir sub/.cachebro 2>&1 || true; touch x; mv x sub/.cachebro 2>&1 || true; mkdir .cachebro; ls -A"); strings.Contains(got, "store") {
		t.Error(got)
	}
	if got := f.under("ls sub/.cachebro"); got != "store\n" {
		t.Errorf("after all: %q", got)
	}
	if got := names(t, f.dir); !slices.Equal(got, []string{".cachebro", "sub", "x"}) {
		t.Errorf("listed %q", got)
	}
}
