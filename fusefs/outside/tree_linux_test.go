//go:build linux && (amd64 || arm64)

package outside

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// watchedThread starts a thread whose calls are reported. The thread removes files, each after the
// previous one is gone.
func watchedThread(t *testing.T, names ...string) (listener int, removed chan string) {
	t.Helper()
	fds, begin := make(chan int), make(chan bool)
	removed = make(chan string, len(names))
	var thread func()
	thread = func() { // the thread ends with the goroutine, unless it is the program's main thread
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go thread()
			<-begin
			runtime.UnlockOSThread()
			return
		}
		fd, err := notifier.Under(Filter())
		if err != nil {
			t.Error(err)
			fd = -1
		}
		fds <- fd
		<-begin
		for _, name := range names {
			if err := unix.Unlink(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			removed <- name
		}
		close(removed)
	}
	go thread()
	listener = <-fds
	if listener < 0 {
		t.FailNow()
	}
	close(begin)
	return listener, removed
}

// taken returns the tree of a listener as a recorder receives it.
func taken(t *testing.T, listener, memfd int) *tree {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	tr, err := takeTree(pair[0], unix.UnixRights(listener, memfd), false)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func sharedPage(t *testing.T) (int, page) {
	t.Helper()
	fd, err := unix.MemfdCreate("calls", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, pageSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := mapPage(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, p
}

func files(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestTakenCallIsShownAgain: a call that a recorder had received when it was killed is shown to the
// next recorder, and continues afterwards.
func TestTakenCallIsShownAgain(t *testing.T) {
	paths := files(t, "one", "two")
	listener, removed := watchedThread(t, paths...)
	memfd, p := sharedPage(t)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&p[0]))); errno != 0 {
		t.Fatal(errno)
	}
	var seen []string
	taken(t, listener, memfd).serve(func(n *notifier.Notice, _ origin) bool {
		name, err := n.Name(notifier.Calls[uint32(n.NR)].Path)
		if err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("shown after it went on: %v", err)
		}
		seen = append(seen, name)
		return true
	})
	if len(seen) != 2 || seen[0] != paths[0] || seen[1] != paths[1] {
		t.Errorf("shown %v, want %v", seen, paths)
	}
	if n := p.unseen(0); n != 0 {
		t.Errorf("%d went on unseen", n)
	}
	<-removed
}

// TestBusyRecorderHoldsNobody: while the examination of one call takes too long, that call and the
// calls after it continue unexamined and are counted. Later calls are examined again.
func TestBusyRecorderHoldsNobody(t *testing.T) {
	t.Parallel()
	paths := files(t, "one", "two", "three", "four")
	listener, removed := watchedThread(t, paths...)
	memfd, p := sharedPage(t)
	calls := 0
	taken(t, listener, memfd).serve(func(n *notifier.Notice, _ origin) bool {
		if calls++; calls == 1 {
			<-removed
			<-removed
		}
		return true
	})
	for range removed {
	}
	if unseen := p.unseen(0); unseen < 2 || calls+unseen != 5 {
		t.Errorf("%d of 4 calls were looked at, and %d went on unseen", calls, unseen)
	}
}

// TestReadByAnother: a recorder may not be allowed to read the memory of a process. Then the
// process that runs the tree reads it for the recorder. In this test, the recorder is not allowed
// to because it runs as another user.
func TestReadByAnother(t *testing.T) {
	const given = "CACHEBRO_TEST_READ"
	if text := os.Getenv(given); text != "" {
		addr, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		tr := &tree{conn: 3}
		n := notifier.Notice{PID: uint32(os.Getppid()), Args: [6]uint64{addr, 8}, Read: tr.read}
		if notifier.Peek(n.PID, addr, make([]byte, 1)) {
			t.Fatal("the memory can be read without help")
		}
		if name, err := n.Name(0); err != nil || name != "/some/name" {
			t.Errorf("read %q: %v", name, err)
		}
		if name, err := n.Name(1); err == nil {
			t.Errorf("read %q where nothing is", name)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to become another user")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "conn")
	w := &Watch{conn: pair[0]}
	if err := unix.Pipe2(w.stop[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	name := append([]byte("/some/name"), make([]byte, 512)...)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestReadByAnother$")
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{theirs}
	cmd.Env = []string{given + "=" + strconv.FormatUint(uint64(uintptr(unsafe.Pointer(&name[0]))), 10)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	done := make(chan bool)
	go func() { done <- w.read() }()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	theirs.Close()
	if stopped := <-done; stopped {
		t.Error("it says that it was stopped, but the other end has gone")
	}
	unix.Close(pair[0])
	unix.Close(w.stop[0])
	unix.Close(w.stop[1])
}

// TestAlarm: the alarm rings once for a call whose examination takes too long, and not for the calls
// before and after it, although all of them together take longer than the limit.
func TestAlarm(t *testing.T) {
	rung := make(chan uint64, 10)
	a := newAlarm(200*time.Millisecond, func(id uint64) { rung <- id })
	short := func(first uint64) {
		for id := range uint64(50) {
			a.begin(first + id)
			time.Sleep(10 * time.Millisecond)
			if a.end() {
				t.Errorf("the alarm rang for the short call %d", first+id)
			}
		}
	}
	short(1000)
	a.begin(7)
	if id := <-rung; id != 7 {
		t.Errorf("the alarm rang for call %d, not 7", id)
	}
	if !a.end() {
		t.Error("the alarm does not say that it rang")
	}
	short(2000)
	if len(rung) > 0 {
		t.Error("the alarm rang again")
	}
}
