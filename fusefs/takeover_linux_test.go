//go:build !portable

package fusefs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["serve"] = serveHelper
	helpers["use"] = useHelper
	helpers["exec"] = execHelper
}

// sockStore hands descriptors to the test through a socket.
type sockStore struct{ fd int }

func (k sockStore) Keep(fh uint64, fd int) bool {
	return unix.Sendmsg(k.fd, binary.NativeEndian.AppendUint64([]byte{'K'}, fh), unix.UnixRights(fd), nil, unix.MSG_DONTWAIT) == nil
}

func (k sockStore) Drop(fh uint64) {
	_ = unix.Sendmsg(k.fd, binary.NativeEndian.AppendUint64([]byte{'D'}, fh), nil, nil, unix.MSG_DONTWAIT)
}

// serveHelper runs a server in a separate process. Its descriptors are the source (3), the ledger
// (4), the device (5), the socket of the descriptor store (6) and, from 7 on, the stored
// descriptors. The arguments are the mountpoint, "new" or "next", and the handles of the stored
// descriptors.
func serveHelper(args []string) error {
	opt := Options{
		Source: os.NewFile(3, "source"), Mountpoint: args[0], FD: 5, Ledger: os.NewFile(4, "ledger"),
		TakeOver: args[1] == "next", FDStore: sockStore{6}, Kept: map[uint64]*os.File{}, Observer: &recorder{quiet: true},
	}
	for i, a := range args[2:] {
		var fh uint64
		fmt.Sscan(a, &fh)
		opt.Kept[fh] = os.NewFile(uintptr(7+i), a)
	}
	s, err := Mount(opt)
	if err != nil {
		return err
	}
	fmt.Println("up")
	s.Wait()
	return nil
}

// heirs is a mount whose server is killed and replaced.
type heirs struct {
	t                      *testing.T
	dir                    string
	source, ledger, device *os.File
	cmd                    *exec.Cmd
	heard                  chan struct{} // closed when everything that the last server sent has been received

	mu   sync.Mutex // guards kept
	kept map[uint64]int
}

func newHeirs(t *testing.T) *heirs { return newHeirsOf(t, func(string) {}) }

// newHeirsOf is like newHeirs, for a directory that fill has prepared.
func newHeirsOf(t *testing.T, fill func(dir string)) *heirs {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
			t.Fatal("no /dev/fuse, and CACHEBRO_NEED_FUSE is set")
		}
		t.Skip("no /dev/fuse")
	}
	dir, err := os.MkdirTemp("", testDirs)
	if err != nil {
		t.Fatal(err)
	}
	h := &heirs{t: t, dir: dir, kept: map[uint64]int{}}
	t.Cleanup(func() { os.RemoveAll(dir) })
	fill(dir)
	if h.source, err = os.Open(dir); err != nil {
		t.Fatal(err)
	}
	if h.ledger, err = NewLedger(); err != nil {
		t.Fatal(err)
	}
	fd, err := mountNow(&Options{Source: h.source, Mountpoint: dir, AllowOther: os.Geteuid() == 0})
	if err != nil {
		t.Fatal(err)
	}
	h.device = os.NewFile(uintptr(fd), "device")
	t.Cleanup(h.end)
	h.start("new")
	return h
}

func (h *heirs) end() {
	err := unmount(h.dir, false)
	for try := 0; errors.Is(err, ErrBusy) && try < 100; try++ {
		time.Sleep(20 * time.Millisecond)
		err = unmount(h.dir, false)
	}
	if err != nil {
		h.t.Error(err)
		_ = Detach(h.dir)
	}
	if err := h.cmd.Wait(); err != nil {
		h.t.Errorf("the last server: %v", err)
	}
	<-h.heard
	for _, f := range []*os.File{h.source, h.ledger, h.device} {
		f.Close()
	}
}

// start runs a server. A goroutine receives the descriptors that the server stores, and ends with
// the server.
func (h *heirs) start(how string) {
	t := h.t
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.heard = make(chan struct{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.cmd = exec.Command(self, h.dir, how)
	remote := os.NewFile(uintptr(pair[1]), "sock")
	h.cmd.ExtraFiles = []*os.File{h.source, h.ledger, h.device, remote}
	h.mu.Lock()
	for fh, fd := range h.kept {
		h.cmd.Args = append(h.cmd.Args, fmt.Sprint(fh))
		f, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(f), "kept")
		defer file.Close()
		h.cmd.ExtraFiles = append(h.cmd.ExtraFiles, file)
	}
	h.mu.Unlock()
	h.cmd.Env = append(os.Environ(), helperEnv+"=serve")
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	remote.Close()
	go h.receive(pair[0], h.heard)
	stuck := time.AfterFunc(30*time.Second, func() { _ = h.cmd.Process.Kill() })
	defer stuck.Stop()
	line := make([]byte, 3)
	if n, err := out.Read(line); err != nil || string(line[:n]) != "up\n" {
		t.Fatalf("the server did not come up: %q, %v", line[:n], err)
	}
}

func (h *heirs) receive(sock int, heard chan struct{}) {
	defer close(heard)
	defer unix.Close(sock)
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		msg := make([]byte, 16)
		n, on, _, _, err := unix.Recvmsg(sock, msg, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 9 {
			return
		}
		fh := binary.NativeEndian.Uint64(msg[1:])
		h.mu.Lock()
		if msg[0] == 'K' {
			cs, _ := unix.ParseSocketControlMessage(oob[:on])
			fds, _ := unix.ParseUnixRights(&cs[0])
			h.kept[fh] = fds[0]
		} else if fd, ok := h.kept[fh]; ok {
			unix.Close(fd)
			delete(h.kept, fh)
		}
		h.mu.Unlock()
	}
}

func (h *heirs) kill() {
	h.t.Helper()
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
	<-h.heard
}

// next kills the server and has another one take over.
func (h *heirs) next() {
	h.t.Helper()
	h.kill()
	h.start("next")
}

// use runs one of the functions in users in a separate process. This process, which starts the
// servers, must not have a file open on the mount. The child that will become a new server would
// have to close that file before its exec, and would wait forever for that server's answer.
func (h *heirs) use(user string) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self, user, h.dir)
	cmd.Env = append(os.Environ(), helperEnv+"=use")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	for asked := bufio.NewScanner(out); asked.Scan(); {
		h.next()
		fmt.Fprintln(in)
	}
	if err := cmd.Wait(); err != nil {
		h.t.Errorf("%s: %v", user, err)
	}
}

// Files that were open, mapped or removed when the server was killed, and working directories,
// continue to work as if nothing had happened.
func TestTakeOver(t *testing.T) {
	h := newHeirs(t)
	h.use("one")
	eventuallyOr(func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.kept) == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) > 0 {
		t.Errorf("still kept after the close: %v", h.kept)
	}
}

// Operations that cannot be repeated are carried out exactly once, whenever the server is killed.
func TestTakeOverInFlight(t *testing.T) { newHeirs(t).use("many") }

// TestTakeOverDuringExec: a process execs while no server runs. The exec has to close a file, which
// waits for a server, and every process that examines the exec'ing process waits for the exec. The
// next server used to look up the processes that had files open before it served any request, so
// all of them waited forever.
func TestTakeOverDuringExec(t *testing.T) {
	h := newHeirs(t)
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	cmd := helperCmd("exec", lock.Name(), filepath.Join(h.dir, "own"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	defer func() { _ = cmd.Process.Kill() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	h.kill()
	in.Close()
	// Nothing may read the process's files in /proc now, because the reader would wait too.
	closed := make(chan error, 1)
	go func() {
		closed <- unix.FcntlFlock(lock.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
	}()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the exec does not begin")
	}
	h.start("next")
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the exec does not go on")
	}
}

// execHelper executes another program. The exec closes the locked file, which ends the lock, and
// then the file that the helper has written.
func execHelper(args []string) error {
	lock, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return err
	}
	f, err := os.Create(args[1])
	if err != nil {
		return err
	}
	if _, err := f.WriteString("mine"); err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin)
	err = unix.Exec("/bin/true", []string{"true"}, nil)
	runtime.KeepAlive(lock)
	runtime.KeepAlive(f)
	return err
}

// useHelper works on the mount. It requests another server with a line, and reads a line when that
// server runs.
func useHelper(args []string) error {
	answers := bufio.NewScanner(os.Stdin)
	next := func() {
		fmt.Println()
		answers.Scan()
	}
	if args[0] == "one" {
		return useOne(args[1], next)
	}
	if args[0] == "numbers" {
		return useNumbers(args[1], next)
	}
	return useMany(args[1], next)
}

func useMany(dir string, next func()) error {
	const workers = 6
	var stop atomic.Bool
	var ops atomic.Int64
	ends := make(chan error, workers)
	for w := range workers {
		go func() {
			ends <- burst(filepath.Join(dir, fmt.Sprintf("w%d", w)), rand.New(rand.NewSource(int64(w))), &stop, &ops)
		}()
	}
	r := rand.New(rand.NewSource(1))
	for range 15 {
		time.Sleep(time.Duration(10+r.Intn(30)) * time.Millisecond)
		next()
		for done := ops.Load(); ops.Load() < done+100 && len(ends) == 0; {
			time.Sleep(time.Millisecond)
		}
	}
	stop.Store(true)
	var errs []error
	for range workers {
		errs = append(errs, <-ends)
	}
	return errors.Join(errs...)
}

// useOne returns an error at the first difference from an ordinary file system.
func useOne(dir string, next func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	check := func(err error) {
		if err != nil {
			_, _, line, _ := runtime.Caller(1)
			panic(fmt.Errorf("line %d: %w", line, err))
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	holds := func(name, want string) {
		if b, err := os.ReadFile(path(name)); err != nil || string(b) != want {
			_, _, line, _ := runtime.Caller(1)
			panic(fmt.Errorf("line %d: %s: %.60q, %v; want %.60q", line, name, b, err, want))
		}
	}
	check(os.MkdirAll(path("a/b"), 0o755))
	check(os.WriteFile(path("a/b/twin"), []byte("twin"), 0o644))
	check(os.Link(path("a/b/twin"), path("a/other")))
	shell := exec.Command("sh")
	shell.Dir = path("a/b")
	in, err := shell.StdinPipe()
	check(err)
	var said bytes.Buffer
	shell.Stdout, shell.Stderr = &said, &said
	check(shell.Start())

	log, err := os.Create(path("a/log"))
	check(err)
	defer log.Close()
	gone, err := os.Create(path("gone"))
	check(err)
	defer gone.Close()
	_, err = gone.WriteString("0")
	check(err)
	check(os.Remove(path("gone")))
	tmp, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	check(err)
	defer tmp.Close()
	locked, err := os.OpenFile(path("locked"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o400)
	check(err)
	defer locked.Close()
	check(os.WriteFile(path("map"), make([]byte, 4096), 0o644))
	mf, err := os.OpenFile(path("map"), os.O_RDWR, 0)
	check(err)
	m, err := unix.Mmap(int(mf.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(err)
	check(mf.Close())

	for i := range 5 {
		next()
		_, err = fmt.Fprintf(log, "line %d\n", i)
		check(err)
		_, err = gone.WriteAt([]byte("gone"), int64(4*i))
		check(err)
		_, err = tmp.WriteAt([]byte("tmp."), int64(4*i))
		check(err)
		_, err = locked.WriteAt([]byte("lock"), int64(4*i))
		check(err)
		m[i] = byte('a' + i)
		check(unix.Msync(m, unix.MS_SYNC))
		fmt.Fprintf(in, "echo %d >>here; mv here here%d; mv here%d here\n", i, i, i)
		holds("a/other", "twin")
	}
	check(os.Remove(path("a/b/twin")))
	holds("a/other", "twin")
	next()
	holds("a/other", "twin")
	check(os.Rename(path("a"), path("moved")))
	next()
	fmt.Fprintln(in, "echo end >>here; pwd -P; cat ../other")
	in.Close()
	check(shell.Wait())
	if got := said.String(); got != path("moved/b")+"\ntwin" {
		return fmt.Errorf("the shell said: %q", got)
	}
	holds("moved/b/here", "0\n1\n2\n3\n4\nend\n")
	holds("moved/log", "line 0\nline 1\nline 2\nline 3\nline 4\n")
	holds("map", "abcde"+strings.Repeat("\x00", 4091))
	for name, f := range map[string]*os.File{"gone": gone, "tmp.": tmp, "lock": locked} {
		b := make([]byte, 64)
		n, _ := f.ReadAt(b, 0)
		if string(b[:n]) != strings.Repeat(name, 5) {
			return fmt.Errorf("%s holds %q", name, b[:n])
		}
	}
	check(sys.LinkFD(int(tmp.Fd()), unix.AT_FDCWD, path("named")))
	next()
	holds("named", strings.Repeat("tmp.", 5))
	check(unix.Munmap(m))
	for _, f := range []*os.File{log, gone, tmp, locked} {
		check(f.Close())
	}
	return nil
}

// The kernel has forgotten a directory but still knows a directory in it, for instance because of
// an inotify watch. Then another server takes over. That server used to record changes of a file in
// the inner directory under a path that lacked its beginning. When the kernel forgot the inner
// directory too, the server panicked while it held a lock, and the mount hung.
func TestTakeOverOfNameInForgottenDirectory(t *testing.T) {
	dir := t.TempDir()
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	serve := func(takeOver bool) *overlay {
		source, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOverlay(&Options{Source: source, Ledger: ledger, TakeOver: takeOver})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	find := func(o *overlay, parent *inode, name string, ino uint64, mode uint32) *inode {
		n, _ := o.ref(parent, name, &sys.Stat{Stat: event.Stat{Dev: 1, Ino: ino, Birth: 7, Mode: mode}})
		return n
	}
	first := serve(false)
	up := find(first, first.root.node, "up", 2, unix.S_IFDIR)
	d := find(first, up, "d", 3, unix.S_IFDIR)
	find(first, first.root.node, "a", 4, unix.S_IFREG)
	find(first, d, "b", 4, unix.S_IFREG)
	first.Forget(up.id, 1)
	first.ledger.head.initLen = 1 // as after the handshake with the kernel
	first.close()

	o := serve(true)
	defer o.close()
	o.restore(nil)
	a, d := o.table.find(key{1, 4, 7}), o.table.find(key{1, 3, 7})
	if is := a.Paths(0); !slices.Equal(is, []string{"a"}) {
		t.Errorf("the names are %q", is)
	}
	o.Forget(d.id, 1)
	find(o, find(o, find(o, o.root.node, "up", 2, unix.S_IFDIR), "d", 3, unix.S_IFDIR), "b", 4, unix.S_IFREG)
	if is := a.Paths(0); !slices.Equal(is, []string{"up/d/b", "a"}) {
		t.Errorf("the names are %q after b was looked up", is)
	}
}
