package fusefs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["create"] = func(args []string) error { return os.WriteFile(args[0], []byte(args[1]), 0o644) }
	helpers["chmodnew"] = func(args []string) error { return writeThenChmod(args[0]) }
	helpers["mmap"] = func(args []string) error { return mmapStore(args[0]) }
	helpers["child"] = func(args []string) error { return writeAfterChild(args[0]) }
	helpers["append"] = func(args []string) error { return appendLines(args[0], args[1]) }
	helpers["unlinked"] = func(args []string) error { return writeUnlinked(args[0]) }
	helpers["tmpfile"] = func(args []string) error { return linkTmpfile(args[0], args[1]) }
}

// run starts one of the helpers as a separate process.
func (f *fixture) run(name string, args ...string) {
	f.t.Helper()
	cmd := f.enter(helperCmd(name, args...))
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func helperCmd(name string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	return cmd
}

// mmapStore writes through a mapping after the last descriptor was closed.
func mmapStore(name string) error {
	h, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(h.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	h.Close()
	copy(m, "WXYZ")
	return unix.Munmap(m)
}

// writeThenChmod makes a file and sets its mode while it is still open.
func writeThenChmod(name string) error {
	h, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := h.Chmod(0o600); err != nil {
		return err
	}
	if _, err := h.WriteString("text"); err != nil {
		return err
	}
	if err := h.Chmod(0o640); err != nil {
		return err
	}
	return h.Close()
}

// writeAfterChild opens a file that a child inherits. The child exits, which
// flushes the descriptor, before the parent writes.
func writeAfterChild(name string) error {
	h, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	child := exec.Command("true")
	child.ExtraFiles = []*os.File{h}
	if err := child.Run(); err != nil {
		return err
	}
	if _, err := h.WriteString("parent"); err != nil {
		return err
	}
	return h.Close()
}

func appendLines(name, line string) error {
	h, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := h.WriteString(line); err != nil {
		return err
	}
	return h.Close()
}

func writeUnlinked(name string) error {
	h, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	if _, err := h.WriteString("after!"); err != nil {
		return err
	}
	st, err := h.Stat()
	if err != nil || st.Size() != 6 {
		return fmt.Errorf("stat of an unlinked open file: %v, %v", st, err)
	}
	return h.Close()
}

func linkTmpfile(dir, name string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("nameless")); err != nil {
		return err
	}
	if err := sys.LinkFD(fd, unix.AT_FDCWD, name); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return unix.Close(fd)
}

// Each case is a way in which programs write, with the exact sequence of calls that the Observer
// must get.
func TestSequences(t *testing.T) {
	tests := []struct {
		name  string
		setup string // in the mount; its calls are not compared
		do    func(f *fixture)
		want  []string
	}{
		{"create, write, close", "", func(f *fixture) { f.run("create", "a", "text") },
			[]string{`done create a`, `closed create a "text"`}},
		{"create and close", "", func(f *fixture) { f.sh("touch a") },
			[]string{`done create a`, `closed create a ""`}},
		{"a shell's redirection flushes before it writes", "", func(f *fixture) { f.sh("echo x > a") },
			[]string{`done create a`, `closed create a "x\n"`}},
		{"overwrite by a shell", "echo old > a", func(f *fixture) { f.sh("echo new > a") },
			[]string{`before truncate a "old\n"`, `closed write a "new\n"`}},
		{"O_TRUNC without a write", "echo old > a", func(f *fixture) { f.sh(": > a") },
			[]string{`before truncate a "old\n"`, `closed write a ""`}},
		{"truncate(2) without a handle", "echo old > a", func(f *fixture) { f.path("a", func(p string) error { return os.Truncate(p, 2) }) },
			[]string{`before truncate a "old\n"`, `closed truncate a "ol"`}},
		{"O_TRUNC of a file opened for reading", "echo old > a", func(f *fixture) {
			f.path("a", func(p string) error {
				h, err := os.OpenFile(p, os.O_RDONLY|os.O_TRUNC, 0)
				if err == nil {
					err = h.Close()
				}
				return err
			})
		}, []string{`before truncate a "old\n"`, `closed truncate a ""`}},
		{"append by two processes", "echo 1 > a", func(f *fixture) { f.run("append", "a", "2\n"); f.run("append", "a", "3\n") },
			[]string{`before write a "1\n"`, `closed write a "1\n2\n"`, `before write a "1\n2\n"`, `closed write a "1\n2\n3\n"`}},
		{"a store into a mapping after close", "printf abcdef > a", func(f *fixture) { f.run("mmap", "a") },
			[]string{`before write a "abcdef"`, `closed write a "WXYZef"`}},
		{"a child that inherited the descriptor exits first", "echo childs > a", func(f *fixture) { f.run("child", "a") },
			[]string{`before write a "childs\n"`, `closed write a "parent\n"`}},
		{"rename over", "echo old > a; echo new > b", func(f *fixture) { f.sh("mv b a") },
			[]string{`before rename a "old\n"`, `done rename b a (replaced)`}},
		{"atomic save", "echo old > a", func(f *fixture) { f.sh("echo new > .a.tmp; mv .a.tmp a") },
			[]string{`done create .a.tmp`, `closed create .a.tmp "new\n"`, `before rename a "old\n"`, `done rename .a.tmp a (replaced)`}},
		{"exchange", "echo 1 > a; echo 2 > b", func(f *fixture) { f.exchange("a", "b") },
			[]string{`done exchange a b (replaced)`}},
		{"unlink", "echo old > a", func(f *fixture) { f.sh("rm a") },
			[]string{`before unlink a "old\n"`, `done unlink a`}},
		{"unlink while open, then write", "echo old > a", func(f *fixture) { f.run("unlinked", "a") },
			[]string{`before unlink a "old\n"`, `done unlink a`, `before write (a) "old\n"`, `closed write (a) "after!"`}},
		{"hard links", "echo x > a", func(f *fixture) { f.sh("ln a b; rm a; echo y >> b") },
			[]string{`done link a b`, `before unlink b "x\n"`, `done unlink a`, `before write b "x\n"`, `closed write b "x\ny\n"`}},
		{"symlink", "", func(f *fixture) { f.sh("ln -s to a; rm a") },
			[]string{`done symlink a -> to`, `done unlink a -> to`}},
		{"directories", "", func(f *fixture) { f.sh("mkdir d; mv d e; rmdir e") },
			[]string{`done mkdir d`, `done rename d e`, `done rmdir e`}},
		{"a directory with a file in it moves", "mkdir -p d/e; echo x > d/e/f", func(f *fixture) { f.sh("mv d g; echo y > g/e/f") },
			[]string{`done rename d g`, `before truncate g/e/f "x\n"`, `closed write g/e/f "y\n"`}},
		// An editor such as sed -i sets the mode of its new file before it closes the file. Both
		// steps together make one version.
		{"mode set before the first close", "", func(f *fixture) { f.run("chmodnew", "a") }, []string{`done create a`, `closed create a "text"`}},
		{"chmod", "touch a", func(f *fixture) { f.sh("chmod 600 a") }, []string{`done chmod a`}},
		{"fsync", "", func(f *fixture) { f.sh("dd if=/dev/zero of=a bs=1 count=2 conv=fsync status=none") },
			[]string{`done create a`, `synced a`, `closed create a "\x00\x00"`}},
		{"fifo", "", func(f *fixture) { f.sh("mkfifo a") }, []string{`done mknod a`}},
		{"newline and invalid UTF-8 in a name", "", func(f *fixture) { f.sh(`echo 1 > $'a\nb'; echo 2 > $'\xff\xfe'; mv $'\xff\xfe' $'\xfd'`) },
			[]string{"done create a\nb", "closed create a\nb \"1\\n\"", "done create \xff\xfe", "closed create \xff\xfe \"2\\n\"", "done rename \xff\xfe \xfd"}},
		{"copy_file_range", "echo old > a; echo new > b", func(f *fixture) { f.copyRange("b", "a") },
			[]string{`before write a "old\n"`, `closed write a "new\n"`}},
		{"hole punched", "echo abcdefgh > a", func(f *fixture) { f.sh("fallocate -p -o 2 -l 4 a") },
			[]string{`before write a "abcdefgh\n"`, `synced a`, `closed write a "ab\x00\x00\x00\x00gh\n"`}},
	}
	f := mountTest(t, nil)
	f.rec.quiet = true
	if sys.Points {
		tests = append(tests, tests[0])
		last := &tests[len(tests)-1]
		last.name, last.do = "O_TMPFILE, then a name", func(f *fixture) { f.run("tmpfile", ".", "a") }
		last.want = []string{`done create a`, `closed create a "nameless"`}
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sub := *f
			sub.t, sub.dir = t, filepath.Join(f.dir, fmt.Sprint(i))
			if err := os.Mkdir(sub.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			sub.sh(test.setup)
			eventuallyOr(func() bool { return f.srv.Stats().Dirty == 0 && f.srv.Stats().Handles == 0 })
			f.told()
			f.rec.take()
			test.do(&sub)
			// The names are relative to the root of the mount.
			eventuallyOr(func() bool { return f.rec.count() >= len(test.want) && f.srv.Stats().Dirty == 0 })
			f.told()
			got := f.rec.take()
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], filepath.Base(sub.dir)+"/", "")
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("recorded:\n\t%q\nwant:\n\t%q", got, test.want)
			}
		})
	}
}

func (f *fixture) path(name string, do func(string) error) {
	f.t.Helper()
	if err := do(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) exchange(a, b string) {
	f.t.Helper()
	err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(f.dir, a), unix.AT_FDCWD, filepath.Join(f.dir, b), unix.RENAME_EXCHANGE)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.read(a) != "2\n" || f.read(b) != "1\n" {
		f.t.Error("exchange changed nothing")
	}
}

func (f *fixture) copyRange(from, to string) {
	f.t.Helper()
	in, err := os.Open(filepath.Join(f.dir, from))
	if err != nil {
		f.t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(f.dir, to), os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	if _, err := unix.CopyFileRange(int(in.Fd()), nil, int(out.Fd()), nil, 4, 0); err != nil {
		f.t.Fatal(err)
	}
}

// A log or a database is never closed, so its content is reported when nothing has been written to
// it for a while.
func TestIdle(t *testing.T) {
	f := mountTest(t, nil)
	h, err := os.Create(filepath.Join(f.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	start := time.Now()
	if _, err := h.WriteString("one\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "idle close", func() bool { return f.rec.count() >= 2 })
	if d := time.Since(start); d < idleAfter {
		t.Errorf("idle close after %v, before %v", d, idleAfter)
	}
	f.want(t, `done create log`, `closed create log "one\n" idle`)
	if _, err := h.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	h.Close()
	f.want(t, `before write log "one\n"`, `closed write log "one\ntwo\n"`)
}

// The kernel may send a RELEASE late. The RELEASE of one shell redirection once arrived after the
// next redirection had emptied the file, and empty content was reported that no process had closed.
func TestLateRelease(t *testing.T) {
	f := mountTest(t, nil)
	const rounds = 500
	f.sh(fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i > a; done", rounds))
	last := fmt.Sprintf("closed write a \"%d\\n\"", rounds)
	var lines []string
	eventually(t, "the last close", func() bool {
		lines = append(lines, f.rec.take()...)
		return slices.Contains(lines, last)
	})
	for _, l := range lines {
		if strings.HasPrefix(l, "closed ") && strings.HasSuffix(l, ` ""`) {
			t.Errorf("nobody left it empty: %s", l)
		}
	}
}

// While a file only grows at its end, the length of the unchanged part is reported, so that capture
// need not read the whole file for each appended line.
func TestTail(t *testing.T) {
	f := mountTest(t, nil)
	tail := func() int64 {
		t.Helper()
		eventually(t, "close", func() bool { f.rec.mu.Lock(); defer f.rec.mu.Unlock(); return len(f.rec.closes) > 0 })
		defer f.rec.take()
		f.rec.mu.Lock()
		defer f.rec.mu.Unlock()
		return f.rec.closes[len(f.rec.closes)-1].TailFrom
	}
	f.run("create", "a", "0123456789")
	if n := tail(); n != 0 {
		t.Errorf("made: %d", n)
	}
	f.run("append", "a", "more")
	if n := tail(); n != 10 {
		t.Errorf("appended: %d", n)
	}
	f.sh("printf XX | dd of=a bs=1 seek=4 conv=notrunc status=none")
	if n := tail(); n != 4 {
		t.Errorf("written in the middle: %d", n)
	}
	f.path("a", func(p string) error { return os.Truncate(p, 7) })
	if n := tail(); n != 7 {
		t.Errorf("cut: %d", n)
	}
	f.sh("printf XX | dd of=a bs=1 seek=20 conv=notrunc status=none")
	if n := tail(); n != 7 {
		t.Errorf("written behind the end: %d", n)
	}
}

// Before may wait. The wait ends when the request is cancelled, here by a signal to the writer, and
// does not delay operations on other files.
func TestBeforeIsCancelled(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("echo old > a; echo old > b")
	entered, ended := make(chan bool, 1), make(chan bool, 1)
	f.rec.mu.Lock()
	f.rec.before = func(c Change) {
		if c.File.Path() != "a" {
			return
		}
		entered <- true
		select {
		case <-c.Cancel:
			ended <- true
		case <-time.After(20 * time.Second):
			ended <- false
		}
	}
	f.rec.mu.Unlock()
	cmd := helperCmd("append", filepath.Join(f.dir, "a"), "x")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-entered
	f.sh("echo new > b; stat a")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !<-ended {
		t.Error("the wait did not end with the request")
	}
	_ = cmd.Wait()
}

// A file that was only made or emptied is reported when its handle ends, which the kernel announces
// after close(2) has returned. A request for the attribute Settled of the root is answered after
// that report. If the file stays open, the request is answered after a short time all the same.
func TestSettled(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("echo old > a")
	ask := func() time.Duration {
		began := time.Now()
		f.path("", func(p string) error {
			if _, err := unix.Getxattr(p, event.Settled, nil); err != unix.ENODATA {
				return fmt.Errorf("%v instead of ENODATA", err)
			}
			return nil
		})
		return time.Since(began)
	}
	f.path("a", func(p string) error {
		h, err := os.OpenFile(p, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		time.AfterFunc(30*time.Millisecond, func() { _ = h.Close() })
		return nil
	})
	ask()
	if calls := f.rec.take(); !slices.Contains(calls, `closed write a ""`) {
		t.Errorf("answered before it was reported: %q", calls)
	}
	f.path("b", func(p string) error {
		h, err := os.Create(p)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = h.Close() })
		return nil
	})
	if took := ask(); took > 5*time.Second {
		t.Errorf("a file that stays open is waited for: %v", took)
	}
}

// A plan makes an empty file, or empties one that has two names. Both are reported after the close. The
// plan used to end before that, so the file did not belong to it: a redo left the file as it was, with
// status 0.
func TestPlanEndsAfterItsEmptyFileIsReported(t *testing.T) {
	f := mountTest(t, nil)
	f.write("b", "full")
	if err := os.Link(filepath.Join(f.dir, "b"), filepath.Join(f.dir, "c")); err != nil {
		t.Fatal(err)
	}
	f.rec.take()
	f.rec.mu.Lock()
	f.rec.closed = func(Closed) { time.Sleep(200 * time.Millisecond) }
	f.rec.mu.Unlock()
	hash := func(content string) string {
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:])
	}
	// The mount reports a file by the name that it saw last.
	for _, c := range []struct{ name, expect, want string }{{"a", "absent", `closed create a ""`}, {"b", hash("full"), `closed write c ""`}} {
		p := wire.Plan{ID: "undo-1", Steps: []wire.PlanStep{{N: 1, Do: "write", Path: []byte(c.name), Mode: 0o100644, Hash: hash(""), Expect: c.expect}}}
		ask := func(_ context.Context, method string, req any, _ []byte, reply any) ([]byte, error) {
			switch q := req.(type) {
			case wire.PlanFetch:
				reply.(*wire.PlanContents).Sizes = []int{0}
			case wire.PlanDone:
				if calls := f.rec.take(); q.Finished && !slices.Contains(calls, c.want) {
					t.Errorf("the plan ended before its file was reported: %q", calls)
				}
			}
			return nil, nil
		}
		res, err := apply.CarryOut(t.Context(), ask, f.dir, p, apply.Work{})
		if err != nil || len(res.Failed) > 0 || f.read(c.name) != "" {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
	}
}

// The mode, owner or attributes of a file change while a program writes to it, as vim with
// backupcopy=yes does. The event used to have the size and time of the unfinished content, so the
// history gave them to the content before it: its version could not be read any more, and an undo
// restored it with the time of the write.
func TestModeChangedWhileWriting(t *testing.T) {
	f := mountTest(t, nil)
	f.rec.quiet = true
	f.write("a", "before\n")
	old := time.Unix(1_000_000_000, 0)
	f.path("a", func(p string) error { return os.Chtimes(p, old, old) })
	f.told()
	f.rec.take()
	h, err := os.OpenFile(filepath.Join(f.dir, "a"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, err := range []error{h.Truncate(0), errOf(h.WriteString("x")), h.Chmod(0o644), h.Chmod(0o600), unix.Fsetxattr(int(h.Fd()), "user.a", []byte("b"), 0), h.Close(), os.Chmod(h.Name(), 0o640)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.told()
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	if len(f.rec.events) != 4 {
		t.Fatalf("%d changes of attributes are reported, want 4", len(f.rec.events))
	}
	for i, e := range f.rec.events {
		unfinished := i < 3
		if wasSize := e.Stat.Size == 7; wasSize != unfinished {
			t.Errorf("change %d has the size %d", i, e.Stat.Size)
		}
		if wasTime := e.Stat.Mtime == old.UnixNano(); wasTime != unfinished {
			t.Errorf("change %d has the time %d", i, e.Stat.Mtime)
		}
	}
}

func errOf(_ int, err error) error { return err }
