package fork

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
)

// A history may come from anybody. Nothing in it may be written outside of the directory or into
// git's own files, and no program may get privileges from it.
func TestFillStaysInside(t *testing.T) {
	out, dir := t.TempDir(), t.TempDir()
	s := storetest.Fresh(t)
	link := storetest.Told(store.OpSymlink, "way", "", unix.S_IFLNK|0o777)
	link.Target = out
	program := storetest.Closed(store.OpCreate, "bin/su", "#!/bin/sh\n")
	program.Stat.Mode |= unix.S_ISUID | unix.S_ISGID | 0o111
	storetest.Apply(t, s,
		storetest.Closed(store.OpCreate, "way/planted", "x"), link,
		storetest.Closed(store.OpCreate, ".git/hooks/post-checkout", "x"), storetest.Closed(store.OpCreate, "sub/.GIT/config", "x"), storetest.Closed(store.OpCreate, "sub/.git", "x"),
		program, storetest.Closed(store.OpCreate, "deep/down/file", "text"))
	for _, name := range []string{".git", ".git/hooks"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	to, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := Fill(t.Context(), s, s.Seq(), to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(out, "planted"), filepath.Join(dir, ".git/hooks/post-checkout"), filepath.Join(dir, "sub/.GIT"), filepath.Join(dir, "sub/.git")} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if fi, err := os.Lstat(filepath.Join(dir, "bin/su")); err != nil || fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		t.Errorf("bin/su: %v %v", fi, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "deep/down/file")); err != nil || string(b) != "text" {
		t.Errorf("%q %v", b, err)
	}
	if fi, err := os.Lstat(filepath.Join(dir, "way")); err != nil || fi.Mode().Type() != os.ModeSymlink {
		t.Errorf("way: %v %v", fi, err)
	}
	again, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := Fill(t.Context(), s, s.Seq(), again); err == nil {
		t.Error("a directory that is not empty was filled")
	}
}
