//go:build !portable

package fusefs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { helpers["lock"] = lockHelper }

// lockHelper is a process that takes locks. It reads commands from its input, one per line, and
// answers each with a line:
//
//	open NAME r|rw      opens a file; the other commands use the file opened last
//	lock KIND r|w|u     takes or releases a lock without waiting; KIND is flock, posix or ofd
//	wait KIND r|w       waits for a lock
//	range KIND r|w|u FROM LEN, waitrange …   like lock and wait, for a part of the file
//	get posix|ofd r|w   prints the conflicting lock
//	close               closes the file
//	read                prints the first three bytes of the file
//	map TEXT            stores a text at the beginning of the file, through a mapping
func lockHelper(args []string) error {
	var open []*os.File
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		say := "ok"
		at := strings.Fields(in.Text())
		var err error
		switch at[0] {
		case "open":
			flags := os.O_RDONLY
			if at[2] == "rw" {
				flags = os.O_RDWR
			}
			var f *os.File
			if f, err = os.OpenFile(at[1], flags, 0); err == nil {
				open = append(open, f)
			}
		case "close":
			err = open[len(open)-1].Close()
			open = open[:len(open)-1]
		case "get":
			fl := unix.Flock_t{Type: lockTypes[at[2]]}
			cmd := map[string]int{"posix": unix.F_GETLK, "ofd": unix.F_OFD_GETLK}[at[1]]
			if err = unix.FcntlFlock(open[len(open)-1].Fd(), cmd, &fl); err == nil {
				say = fmt.Sprint("type ", fl.Type, " start ", fl.Start, " len ", fl.Len, " pid ", fl.Pid)
			}
		case "read":
			b := make([]byte, 3)
			_, err = open[len(open)-1].ReadAt(b, 0)
			say = string(b)
		case "map":
			err = storeMapped(open[len(open)-1], at[1])
		default:
			err = lockBy(int(open[len(open)-1].Fd()), strings.HasPrefix(at[0], "wait"), at[1:])
		}
		if err != nil {
			say = err.Error()
		}
		fmt.Println(say)
	}
	return nil
}

func storeMapped(f *os.File, text string) error {
	if _, err := f.Stat(); err != nil { // programs call stat on a file before they map it
		return err
	}
	page, err := unix.Mmap(int(f.Fd()), 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(page, text)
	return errors.Join(unix.Munmap(page), f.Sync())
}

var lockTypes = map[string]int16{"r": unix.F_RDLCK, "w": unix.F_WRLCK, "u": unix.F_UNLCK}

func lockBy(fd int, wait bool, at []string) error {
	if at[0] == "flock" {
		how := map[string]int{"r": unix.LOCK_SH, "w": unix.LOCK_EX, "u": unix.LOCK_UN}[at[1]]
		if !wait {
			how |= unix.LOCK_NB
		}
		return unix.Flock(fd, how)
	}
	fl := unix.Flock_t{Type: lockTypes[at[1]]}
	if len(at) > 2 {
		fl.Start, _ = strconv.ParseInt(at[2], 10, 64)
		fl.Len, _ = strconv.ParseInt(at[3], 10, 64)
	}
	cmd := map[string][2]int{"posix": {unix.F_SETLK, unix.F_SETLKW}, "ofd": {unix.F_OFD_SETLK, unix.F_OFD_SETLKW}}[at[0]]
	n := 0
	if wait {
		n = 1
	}
	return unix.FcntlFlock(uintptr(fd), cmd[n], &fl)
}

// locker talks to a lockHelper.
type locker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string
}

func newLocker(t *testing.T, dir string, name, mode string) *locker {
	t.Helper()
	l := &locker{t: t, cmd: helperCmd("lock"), out: make(chan string, 16)}
	l.cmd.Stderr = os.Stderr
	var err error
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(l.out)
		for s := bufio.NewScanner(out); s.Scan(); {
			l.out <- s.Text()
		}
	}()
	t.Cleanup(l.end)
	if got := l.do("open " + filepath.Join(dir, name) + " " + mode); got != "ok" {
		t.Fatalf("open %s: %s", name, got)
	}
	return l
}

func (l *locker) end() {
	if l.cmd.ProcessState == nil {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
		l.in.Close()
	}
}

// begin sends a command. hear waits for the answer.
func (l *locker) begin(command string) { fmt.Fprintln(l.in, command) }

func (l *locker) hear() string {
	l.t.Helper()
	select {
	case s := <-l.out:
		return s
	case <-time.After(20 * time.Second):
		l.t.Error("no answer")
		return ""
	}
}

func (l *locker) do(command string) string {
	l.t.Helper()
	l.begin(command)
	return l.hear()
}

// waits reports whether the process sleeps in a wait for a lock and has not answered.
func (l *locker) waits() bool {
	l.t.Helper()
	asleep := false
	eventuallyOr(func() bool {
		for _, task := range tasksOf(l.cmd.Process.Pid) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", l.cmd.Process.Pid, task))
			nr := strings.Fields(string(b) + " x")[0]
			if nr == fmt.Sprint(unix.SYS_FCNTL) || nr == fmt.Sprint(unix.SYS_FLOCK) {
				asleep = true
			}
		}
		return asleep
	})
	select {
	case s := <-l.out:
		l.t.Errorf("did not wait: %s", s)
		return false
	default:
		return asleep
	}
}

func tasksOf(pid int) (tasks []string) {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range all {
		tasks = append(tasks, t.Name())
	}
	return tasks
}

// lockScript makes two processes use locks of one kind, and returns what they saw.
func lockScript(t *testing.T, kind, dir1, dir2 string, between func()) (saw []string) {
	t.Helper()
	a, b := newLocker(t, dir1, "f", "rw"), newLocker(t, dir2, "f", "rw")
	note := func(what, got string) { saw = append(saw, what+": "+got) }
	for _, first := range []string{"r", "w"} {
		note("a "+first, a.do("lock "+kind+" "+first))
		between()
		for _, second := range []string{"r", "w"} {
			note("b "+second, b.do("lock "+kind+" "+second))
			b.do("lock " + kind + " u")
		}
		b.begin("wait " + kind + " w")
		if !b.waits() {
			t.Errorf("%s: nobody waits for a lock of kind %s", kind, first)
		}
		between()
		note("a unlocks", a.do("lock "+kind+" u"))
		note("b waited", b.hear())
		note("a again", a.do("lock "+kind+" r"))
		note("b closes", b.do("close"))
		note("a then", retried(a, "lock "+kind+" w"))
		a.do("lock " + kind + " u")
		b.do("open " + filepath.Join(dir2, "f") + " rw")
	}
	// A process that dies loses its locks.
	note("a w", a.do("lock "+kind+" w"))
	between()
	b.begin("wait " + kind + " r")
	b.waits()
	a.end()
	note("b after a died", b.hear())
	b.end()
	return saw
}

// retried repeats an attempt to take a lock whose owner has just closed a file.
func retried(l *locker, command string) (got string) {
	eventuallyOr(func() bool { got = l.do(command); return got == "ok" })
	return got
}

// TestLockMatrix: a lock excludes both processes on the mount and processes that bypass it, as on
// the native file system, even if the server is killed in between. When the kernel managed the
// mount's locks itself, a process on each side could hold an exclusive lock at the same time.
func TestLockMatrix(t *testing.T) {
	needFUSE(t)
	native := t.TempDir()
	if err := os.WriteFile(filepath.Join(native, "f"), []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"flock", "posix", "ofd"} {
		want := strings.Join(lockScript(t, kind, native, native, func() {}), "\n")
		for _, killed := range []bool{false, true} {
			for _, way := range []string{"mount-mount", "mount-beside", "beside-mount"} {
				t.Run(fmt.Sprintf("%s/%s/killed=%v", kind, way, killed), func(t *testing.T) {
					h := newHeirs(t)
					src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
					if err := os.WriteFile(filepath.Join(src, "f"), []byte("0123456789"), 0o644); err != nil {
						t.Fatal(err)
					}
					dirs := map[string]string{"mount": h.dir, "beside": src}
					from, to, _ := strings.Cut(way, "-")
					between := func() {}
					if killed {
						between = h.next
					}
					if got := strings.Join(lockScript(t, kind, dirs[from], dirs[to], between), "\n"); got != want {
						t.Errorf("got:\n%s\nnatively:\n%s", got, want)
					}
				})
			}
		}
	}
}

// TestLockOwners: POSIX locks end when their process closes any descriptor of the file. A POSIX
// lock belongs to the process that took it, and a conflict names that process. Parts of a file can
// be locked separately.
func TestLockOwners(t *testing.T) {
	f := mountTest(t, nil)
	if err := os.WriteFile(filepath.Join(f.dir, "f"), make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	a, b := newLocker(t, f.dir, "f", "rw"), newLocker(t, f.dir, "f", "rw")
	for _, step := range []struct {
		who           *locker
		command, want string
	}{
		{a, "range posix w 10 20", "ok"},
		{a, "range posix u 15 5", "ok"},
		{b, "range posix w 15 5", "ok"},
		{b, "range posix w 14 1", "resource temporarily unavailable"},
		{b, "get posix w", fmt.Sprint("type 1 start 10 len 5 pid ", a.cmd.Process.Pid)},
		{a, "open " + filepath.Join(f.dir, "f") + " r", "ok"},
		{a, "close", "ok"},
		{b, "range posix w 10 20", "ok"},
		{a, "get posix r", fmt.Sprint("type 1 start 10 len 20 pid ", b.cmd.Process.Pid)},
		{a, "range ofd r 50 0", "ok"},
		{a, "range posix w 60 1", "resource temporarily unavailable"}, // it conflicts with the process's own OFD lock
		{b, "range ofd r 50 0", "ok"},
		{b, "range ofd w 60 1", "resource temporarily unavailable"},
		{a, "close", "ok"},
	} {
		if got := step.who.do(step.command); got != step.want {
			t.Errorf("%s: %s, want %s", step.command, got, step.want)
		}
	}
	if got := retried(b, "range ofd w 60 1"); got != "ok" {
		t.Error(got)
	}
	a.end()
	b.end()
}

// TestLockDeadlock: if two processes wait for each other, the second wait is refused.
func TestLockDeadlock(t *testing.T) {
	f := mountTest(t, nil)
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(f.dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, b := newLocker(t, f.dir, "f", "rw"), newLocker(t, f.dir, "g", "rw")
	a.do("lock posix w")
	b.do("lock posix w")
	a.do("open " + filepath.Join(f.dir, "g") + " rw")
	b.do("open " + filepath.Join(f.dir, "f") + " rw")
	a.begin("wait posix w")
	a.waits()
	if got := b.do("wait posix w"); got != "resource deadlock avoided" {
		t.Error(got)
	}
	b.end()
	if got := a.hear(); got != "ok" {
		t.Error(got)
	}
	a.end()
}

// TestLockDeadlockLater: one of two processes first waits for a third. Only after the third has
// released its lock do the two wait for each other. Both used to wait forever.
func TestLockDeadlockLater(t *testing.T) {
	f := mountTest(t, nil)
	if err := os.WriteFile(filepath.Join(f.dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a, b, c := newLocker(t, f.dir, "f", "rw"), newLocker(t, f.dir, "f", "rw"), newLocker(t, f.dir, "f", "rw")
	a.do("range posix w 0 5")
	b.do("range posix w 10 5")
	c.do("range posix w 20 5")
	b.begin("waitrange posix w 20 5")
	b.waits()
	c.begin("waitrange posix w 0 15")
	c.waits()
	a.do("range posix u 0 0")
	if got := c.hear(); got != "resource deadlock avoided" {
		t.Error(got)
	}
	c.end()
	if got := b.hear(); got != "ok" {
		t.Error(got)
	}
	a.end()
	b.end()
}

// TestLockInterrupted: a process that waits for a lock can be killed, and occupies no thread of the
// server. After its death, the server no longer keeps its request.
func TestLockInterrupted(t *testing.T) {
	f := mountTest(t, nil)
	if err := os.WriteFile(filepath.Join(f.dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"flock", "posix", "ofd"} {
		a := newLocker(t, f.dir, "f", "rw")
		a.do("lock " + kind + " w")
		var waiting []*locker
		for range 30 {
			w := newLocker(t, f.dir, "f", "rw")
			w.begin("wait " + kind + " w")
			waiting = append(waiting, w)
		}
		for _, w := range waiting {
			w.waits()
		}
		eventuallyOr(func() bool { return f.srv.Stats().Threads <= maxParked+maxReady+1 })
		if n := f.srv.Stats().Threads; n > maxParked+maxReady+1 {
			t.Errorf("%s: %d threads for 30 waits", kind, n)
		}
		for _, w := range waiting {
			w.end()
		}
		if got := a.do("lock " + kind + " u"); got != "ok" {
			t.Error(got)
		}
		a.end()
	}
	eventuallyOr(func() bool { return f.srv.Stats().Handles == 0 })
	f.srv.fs.locking.mu.Lock()
	defer f.srv.fs.locking.mu.Unlock()
	if n := len(f.srv.fs.locking.files) + len(f.srv.fs.locking.waiting); n > 0 {
		t.Errorf("%d files and waits are left", n)
	}
}

// TestLockAfterClose: the RELEASE that ends a flock(2) lock comes after close(2) has returned. The
// next process used to find the file locked although no process had locked it.
func TestLockAfterClose(t *testing.T) {
	f := mountTest(t, nil)
	name := filepath.Join(f.dir, "f")
	for i := range 300 {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatalf("lock %d: %v", i, err)
		}
		unix.Close(fd)
	}
}

// TestLockedMemory: at any one time, a file that processes share as memory can be used either through
// the mount or by bypassing it, but not in both ways.
func TestLockedMemory(t *testing.T) {
	h := newHeirs(t)
	src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
	if err := os.WriteFile(filepath.Join(src, "d-shm"), make([]byte, 200), 0o644); err != nil {
		t.Fatal(err)
	}
	const busy = "resource temporarily unavailable"
	a, b := newLocker(t, h.dir, "d-shm", "rw"), newLocker(t, h.dir, "d-shm", "rw")
	c := newLocker(t, src, "d-shm", "rw")
	try := func(l *locker, command, want string) {
		t.Helper()
		if got := l.do(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	try(a, "range posix r 128 1", "ok")
	try(b, "range posix r 128 1", "ok")
	try(c, "range posix r 128 1", busy)
	h.next()
	try(c, "range posix r 128 1", busy)
	try(b, "range posix w 128 1", busy)
	try(b, "range posix w 120 1", "ok")
	try(a, "range posix w 120 1", busy)
	a.end()
	b.end()
	if got := retried(c, "range posix r 128 1"); got != "ok" {
		t.Error(got)
	}
	d := newLocker(t, h.dir, "d-shm", "rw")
	try(d, "range posix r 128 1", busy)
	try(d, "waitrange posix r 128 1", "no locks available")
	d.end()
	c.end()
}

// TestLockedByMemorysName: a file may have the name of a file with shared memory, but be locked in
// another way. Then it is treated like any other file. Both sides read it under their locks, and
// wait for a writer.
func TestLockedByMemorysName(t *testing.T) {
	h := newHeirs(t)
	src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
	for _, name := range []string{"build-lock", "d-shm"} {
		if err := os.WriteFile(filepath.Join(src, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		here, beside := newLocker(t, h.dir, name, "rw"), newLocker(t, src, name, "rw")
		for _, l := range []*locker{here, beside} {
			if got := l.do("lock posix r"); got != "ok" {
				t.Errorf("%s: %s", name, got)
			}
		}
		here.do("lock posix u")
		beside.do("lock posix w")
		here.begin("wait posix w")
		here.waits()
		beside.do("lock posix u")
		if got := here.hear(); got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
		here.end()
		beside.end()
	}
}

// TestAgreesUnderLock: a process that has the lock reads changes that bypassed the mount. This also
// holds for a descriptor that was opened before the change, and before the mount detects that it
// can be bypassed.
func TestAgreesUnderLock(t *testing.T) {
	h := newHeirs(t)
	src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
	open := func(dir, name string) *os.File {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	write := func(f *os.File, s string, off int64) {
		t.Helper()
		if _, err := f.WriteAt([]byte(s), off); err != nil {
			t.Fatal(err)
		}
	}
	want := func(f *os.File, want string) {
		t.Helper()
		got := make([]byte, len(want)) // not longer than the file, because for a longer read the kernel would ask for the size
		if _, err := f.ReadAt(got, 0); string(got) != want {
			t.Errorf("%s: %q, %v, want %q", filepath.Base(f.Name()), got, err, want)
		}
	}
	t.Run("written", func(t *testing.T) {
		here, beside := open(h.dir, "d"), open(src, "d")
		write(here, strings.Repeat("-", 8192), 0)
		want(here, "---")
		for _, lock := range []string{"posix w", "ofd w", "flock w"} {
			kind := strings.Fields(lock)
			if err := lockBy(int(here.Fd()), false, kind); err != nil {
				t.Fatal(err)
			}
			write(here, "one", 0)
			if err := lockBy(int(here.Fd()), false, []string{kind[0], "u"}); err != nil {
				t.Fatal(err)
			}
			write(beside, "two", 0)
			if err := lockBy(int(here.Fd()), false, kind); err != nil {
				t.Fatal(err)
			}
			want(here, "two")
			if err := lockBy(int(here.Fd()), false, []string{kind[0], "u"}); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("memory", func(t *testing.T) {
		log, memory := open(h.dir, "d-wal"), open(h.dir, "d-shm")
		write(log, "one"+strings.Repeat("-", 8192), 0)
		write(memory, "one"+strings.Repeat("-", 8192), 0)
		want(log, "one")
		want(memory, "one")
		page, err := unix.Mmap(int(open(src, "d-shm").Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		copy(page, "two")
		if err := unix.Munmap(page); err != nil {
			t.Fatal(err)
		}
		write(open(src, "d-wal"), "two three", 0)
		if err := lockBy(int(memory.Fd()), false, []string{"posix", "r", "128", "1"}); err != nil {
			t.Fatal(err)
		}
		want(memory, "two")
		want(log, "two three")
	})
}

// TestLockedMemoryTakenOver: a server can be killed after it has locked shared memory, while the
// kernel still has the old pages. The next server drops these pages before it lets any process
// access the file.
func TestLockedMemoryTakenOver(t *testing.T) {
	h := newHeirs(t)
	src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
	if err := os.WriteFile(filepath.Join(src, "d-shm"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	a := newLocker(t, h.dir, "d-shm", "rw")
	defer a.end()
	try := func(command, want string) {
		t.Helper()
		if got := a.do(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	try("range ofd r 128 1", "ok")
	try("read", "one")
	f, err := os.OpenFile(filepath.Join(src, "d-shm"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("two"); err != nil {
		t.Fatal(err)
	}
	h.next()
	try("range ofd r 129 1", "ok")
	try("read", "two")
}

// TestUncachedBeside: while the mount can be bypassed, a process that has a file open for reading
// and writing sees writes to the source immediately, even beyond the file size that the kernel had
// cached. The process can still map the file. Reads used to end early, and SQLite reported a disk
// I/O error or got a page of zeros.
func TestUncachedBeside(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	f.write("d", "one")
	here, err := os.OpenFile(filepath.Join(f.dir, "d"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	got := make([]byte, 8192)
	for size := 100; size < 8000; size += 100 {
		want := strings.Repeat(fmt.Sprint(size/100%10), size)
		f.under("printf " + want + " >d")
		if n, _ := here.ReadAt(got, 0); string(got[:n]) != want {
			t.Fatalf("read %d bytes %.8q, want %d %.8q", n, got[:n], size, want)
		}
	}
	l := newLocker(t, f.dir, "d", "rw") // a separate process, because a page fault in this process would block the server too
	defer l.end()
	if got := l.do("map mapped"); got != "ok" {
		t.Fatal(got)
	}
	if b, _ := os.ReadFile(filepath.Join(f.src, "d")); !strings.HasPrefix(string(b), "mapped") {
		t.Errorf("the source has %.8q", b)
	}
}

// TestLockedMemoryReadOnly: the mount's owner may be allowed only to read a file of shared memory.
// Even then the file must be locked while a process on the mount reads it, so that no process that
// bypasses the mount changes it. When it was not locked, old content was read.
func TestLockedMemoryReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file immutable")
	}
	h := newHeirs(t)
	src := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.source.Fd())
	name := filepath.Join(src, "d-shm")
	if err := os.WriteFile(name, make([]byte, 200), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newLocker(t, src, "d-shm", "rw")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const immutable = 0x10
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0) }()
	a := newLocker(t, h.dir, "d-shm", "r")
	if got := a.do("range posix r 128 1"); got != "ok" {
		t.Error(got)
	}
	for command, want := range map[string]string{"range posix r 128 1": "ok", "range posix w 120 1": "resource temporarily unavailable"} {
		if got := c.do(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	a.end()
	if got := retried(c, "range posix w 120 1"); got != "ok" {
		t.Error(got)
	}
	c.end()
}

// A late report of a change that bypassed the mount used to make the kernel ignore the attributes
// that the kernel had just requested. A read then used the file's size from before the change.
func TestReadsWhileChangesAreTold(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	f.write("a", "begin")
	done, told := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-done:
				told <- n
				return
			default:
				f.srv.Beside("a", false, false)
			}
		}
	}()
	for i := range 3000 {
		text := strings.Repeat("x", 1+i*7919%3000)
		if err := os.WriteFile(filepath.Join(f.src, "a"), []byte(text), 0o644); err != nil {
			t.Error(err)
			break
		}
		if got := f.read("a"); got != text {
			t.Errorf("change %d: %d bytes, want %d", i, len(got), len(text))
			break
		}
	}
	close(done)
	t.Logf("told %d times", <-told)
}
