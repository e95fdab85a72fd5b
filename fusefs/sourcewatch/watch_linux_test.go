package sourcewatch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// recorded holds the events that a watch reported.
type recorded struct {
	events []Event
	lost   []error
}

// watching watches a new directory that contains a file, and a directory with a file in it.
func watching(t *testing.T) (dir string, w *Watch, r *recorded) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"a", "d/b"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r = &recorded{}
	w, err = Start(root, func(es []Event) { r.events = append(r.events, es...) }, func(err error) { r.lost = append(r.lost, err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); root.Close() })
	return dir, w, r
}

// sh runs a script in another process, and returns the events that were reported.
func sh(t *testing.T, dir string, w *Watch, r *recorded, script string) []Event {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	w.Drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	told := r.events
	r.events = nil
	return told
}

// Each kind of change is reported with its names to every watcher; the process is reported only to
// root. The watcher's own changes are not reported.
func TestEvents(t *testing.T) {
	dir, w, r := watching(t)
	outside := t.TempDir()
	for _, c := range []struct {
		script, path, from string
		op                 Op
		dir                bool
	}{
		{"echo y >>a", "a", "", Closed, false},
		{"echo y >d/new", "d/new", "", Came | Closed, false},
		{"mkdir e", "e", "", Came, true},
		{"mv d/new e/moved", "e/moved", "d/new", Moved, false},
		{"echo y >>e/moved", "e/moved", "", Closed, false},
		{"mv d f", "f", "d", Moved, true},
		{"echo y >>f/b", "f/b", "", Closed, false},
		{"chmod 600 f/b", "f/b", "", Attributes, false},
		{"chmod 700 f", "f", "", Attributes, true},
		{"ln f/b f/c", "f/c", "", Came, false},
		{"rm f/c", "f/c", "", Went, false},
		{"ln -s b f/s", "f/s", "", Came, false},
		{"mv f/b " + outside + "/b", "f/b", "", Went, false},
		{"mv " + outside + "/b g", "g", "", Came, false},
		{"rm -r f", "f", "", Went, true},
		{"mkdir -p " + outside + "/x/y; echo z >" + outside + "/x/y/z; mv " + outside + "/x .", "x", "", Came, true},
		{"echo more >>x/y/z", "x/y/z", "", Closed, false},
		{"mv x " + outside + "/gone", "x", "", Went, true},
	} {
		told := sh(t, dir, w, r, c.script)
		is := func(e Event) bool {
			return e.Path == c.path && e.From == c.from && e.Dir == c.dir && e.Op&c.op == c.op
		}
		// The events for one name may be reported in several parts.
		var all Event
		for _, e := range told {
			if e.Path == c.path && e.From == c.from && e.Dir == c.dir {
				all.Op |= e.Op
			}
			if os.Geteuid() == 0 && e.PID == 0 {
				t.Errorf("%s: nobody did %+v", c.script, e)
			}
		}
		all.Path, all.From, all.Dir = c.path, c.from, c.dir
		if !is(all) {
			t.Errorf("%s: want %+v, told %+v", c.script, c, told)
		}
	}
	sh(t, dir, w, r, "echo z >"+outside+"/gone/w")
	if told := sh(t, dir, w, r, "echo z >"+outside+"/z; echo z >"+outside+"/gone/y/more"); len(told) > 0 {
		t.Errorf("of what lies elsewhere: %+v", told)
	}
	for _, name := range []string{"mine", "mine/too", "mine/too/deep"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if told := sh(t, dir, w, r, "true"); len(told) > 0 {
		t.Errorf("of the watcher's own: %+v", told)
	}
	if told := sh(t, dir, w, r, "echo z >mine/too/deep/file"); !slices.ContainsFunc(told, func(e Event) bool { return e.Path == "mine/too/deep/file" }) {
		t.Errorf("in a directory that the watcher has made: %+v", told)
	}
	if len(r.lost) > 0 {
		t.Errorf("lost: %v", r.lost)
	}
}

// TestEventsAsUser runs TestEvents as an ordinary user, who may not mark a file system.
func TestEventsAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	exe := ordinary(t)
	cmd := exec.Command(exe, "-test.run", "^(TestEvents|TestNewDirectories)$", "-test.v")
	cmd.Dir = filepath.Dir(exe)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(exe))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") < 2 {
		t.Errorf("%v: %s", err, out)
	}
}

// ordinary copies this program to a directory in which everybody may run it and make files.
func ordinary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sourcewatch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe := filepath.Join(dir, "test")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// A tree that is made quickly is reported completely, although its directories had no marks yet
// when files were made in them.
func TestNewDirectories(t *testing.T) {
	dir, w, r := watching(t)
	told := sh(t, dir, w, r, "mkdir -p n/1/2/3; for i in 1 2 3 4 5; do mkdir -p n/d$i/e; echo x >n/d$i/e/f; echo x >n/1/2/3/$i; done")
	for _, p := range []string{"n", "n/1", "n/1/2", "n/1/2/3", "n/1/2/3/5", "n/d5", "n/d5/e", "n/d5/e/f", "n/d1/e/f"} {
		if !slices.ContainsFunc(told, func(e Event) bool { return e.Path == p }) {
			t.Errorf("%s is not reported: %+v", p, told)
		}
	}
}

// A file opened through another mount of the tree is reported if that mount is watched.
func TestWatchMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can bind a directory")
	}
	dir, w, r := watching(t)
	at := t.TempDir()
	if err := syscall.Mount(dir, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("bind mount: %v", err)
	}
	defer func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) }()
	if told := sh(t, dir, w, r, "cat "+at+"/a"); len(told) > 0 {
		t.Errorf("%+v", told)
	}
	if err := w.WatchMount(at); err != nil {
		t.Fatal(err)
	}
	opened := func(e Event) bool { return e.Path == "a" && e.Op&Opened != 0 && e.PID != 0 }
	if told := sh(t, dir, w, r, "cat "+at+"/a"); !slices.ContainsFunc(told, opened) {
		t.Errorf("an open through the other mount is not reported: %+v", told)
	}
	if told := sh(t, dir, w, r, "cat a"); len(told) > 0 {
		t.Errorf("an open of the directory itself: %+v", told)
	}
	changed := func(e Event) bool { return e.Path == "a" && e.Op&Changed != 0 }
	for _, on := range []bool{true, false} {
		if err := w.WatchWriting(on); err != nil {
			t.Fatal(err)
		}
		if told := sh(t, dir, w, r, "echo x >>a"); slices.ContainsFunc(told, changed) != on {
			t.Errorf("writing %v: %+v", on, told)
		}
	}
}
