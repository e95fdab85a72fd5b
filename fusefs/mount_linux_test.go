package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// testDirs is the prefix of the names of this process's directories. Another process may be running
// the same tests.
var testDirs = fmt.Sprintf("fusefs-test-%d-", os.Getpid())

// The tests do file operations on mounts that their own process serves. With a single processor, an
// operation could block the goroutine that has to serve it.
func TestMain(m *testing.M) {
	beHelper()
	if runtime.GOMAXPROCS(0) < 4 {
		runtime.GOMAXPROCS(4)
	}
	unix.Umask(0o022)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if b, _ := os.ReadFile("/proc/self/mounts"); bytes.Contains(b, []byte("/"+testDirs)) {
			fmt.Fprintln(os.Stderr, "mounts left behind:\n"+string(b))
			code = 1
		}
	}
	os.Exit(code)
}

// fixture is a mounted source. Usually the mount covers the source, so the source is reached
// through src, a path to a descriptor.
type fixture struct {
	t   *testing.T
	dir string // the mount
	src string // the source directory, reached without the mount
	rec *recorder
	srv *Server
}

func needFUSE(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
			t.Fatal("no /dev/fuse, and CACHEBRO_NEED_FUSE is set")
		}
		t.Skip("no /dev/fuse")
	}
}

// mountTest mounts a new directory and unmounts it after the test. change may alter the options.
func mountTest(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	needFUSE(t)
	root, err := os.MkdirTemp("", testDirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	dir := filepath.Join(root, "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, src: fmt.Sprintf("/proc/self/fd/%d", source.Fd()), rec: &recorder{}}
	opt := Options{Source: source, Mountpoint: dir, Observer: f.rec, AllowOther: os.Geteuid() == 0}
	// Use a ledger, as mountd does. Without a ledger, no file rests (see table.go).
	if opt.Ledger, err = NewLedger(); err == nil {
		t.Cleanup(func() { opt.Ledger.Close() })
	} else if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	if change != nil {
		change(&opt)
	}
	before := openFDs(t)
	if f.srv, err = Mount(opt); err != nil {
		source.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := f.srv.Unmount()
		if err != nil {
			t.Error(err)
			if err := Detach(dir); err != nil {
				t.Error(err)
			}
			f.srv.Wait()
		}
		if s := f.srv.Stats(); s.Handles != 0 || s.Dirty != 0 || s.Threads != 0 {
			t.Errorf("left behind: %+v", s)
		}
		if after := openFDs(t); after > before {
			t.Errorf("%d descriptors before the mount, %d after", before, after)
		}
		source.Close()
	})
	return f
}

func openFDs(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		// The descriptors of the runtime's poller and of this listing come and go, so they do not
		// count.
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") {
			n++
		}
	}
	return n
}

// enter makes cmd start in the mount. The child must not access the mount before its exec. Until
// that exec, the thread that forks is blocked, and a garbage collection would wait for it. Then the
// server of the mount, which is in this process, would be blocked too.
func (f *fixture) enter(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = append([]string{"sh", "-c", `cd "$0" && exec "$@"`, f.dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return cmd
}

// sh runs a shell script in the mount and returns what it prints.
func (f *fixture) sh(script string) string {
	f.t.Helper()
	cmd := f.enter(exec.Command("bash", "-ec", script))
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// under runs a shell script in the source, bypassing the mount.
func (f *fixture) under(script string) string {
	f.t.Helper()
	cmd := exec.Command("bash", "-ec", "cd -P /proc/self/fd/3; "+script)
	src, err := os.Open(f.src)
	if err != nil {
		f.t.Fatal(err)
	}
	defer src.Close()
	cmd.ExtraFiles = []*os.File{src}
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// eventually waits for something that happens in the background.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// TestPosix runs go-fuse's own conformance tests, with the kernel's caches on and off.
func TestPosix(t *testing.T) {
	for _, outside := range []bool{false, true} {
		t.Run(fmt.Sprintf("outside=%v", outside), func(t *testing.T) {
			f := mountTest(t, func(o *Options) { o.Outside = outside })
			for name, test := range posixtest.All {
				if name == "FcntlFlockLocksFile" {
					// This test expects two POSIX locks of one process to conflict. They conflict
					// neither in the source nor on the mount.
					continue
				}
				t.Run(name, func(t *testing.T) {
					dir := filepath.Join(f.dir, name)
					if err := os.Mkdir(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					test(t, dir)
				})
			}
		})
	}
}

func TestMountTable(t *testing.T) {
	f := mountTest(t, nil)
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		w := strings.Fields(line)
		if len(w) > 3 && w[1] == f.dir {
			if w[0] != f.dir || w[2] != "fuse.cachebro" || !strings.Contains(w[3], "default_permissions") {
				t.Errorf("mount table has %q", line)
			}
			return
		}
	}
	t.Error("not in the mount table")
}
