package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/store/leaf/text"

	"golang.org/x/sys/unix"
)

// TestDaemonKilled kills the store daemon again and again during a write loop. No program may
// notice, and every closed content must be in the log.
func TestDaemonKilled(t *testing.T) {
	p := newProject(t, map[string]string{"f0": "start\n"})
	p.mount()
	content := func(n int64) []byte { return fmt.Appendf(nil, "content %d\n", n) }
	stop, ended := make(chan struct{}), make(chan struct{})
	var written atomic.Int64
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n := written.Load() + 1
			if err := os.WriteFile(p.path(fmt.Sprintf("f%d", n%7)), content(n), 0o644); err != nil {
				t.Errorf("write %d: %v", n, err)
			}
			written.Store(n)
			time.Sleep(time.Millisecond)
		}
	}()
	for range 5 {
		before := written.Load()
		eventually(t, time.Minute, "a daemon runs, and more was written", func() bool { return find(p, "daemon") > 0 && written.Load() > before+50 })
		if pid := find(p, "daemon"); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	close(stop)
	<-ended
	total := written.Load()
	behind := regexp.MustCompile(`"lag": *[1-9]`)
	eventually(t, 2*time.Minute, "the log has everything", func() bool { return !behind.MatchString(p.cb("status", "--json", "--dir", p.dir)) })
	hashes := map[string]bool{}
	for _, e := range p.log("") {
		hashes[e.Hash] = true
	}
	for i := int64(1); i <= total; i++ {
		if !hashes[text.Hash(content(i))] {
			t.Errorf("content %d of %d is not in the log", i, total)
		}
	}
	if out := p.cb("store", "fsck", "--dir", p.dir); !strings.Contains(out, "in order") {
		t.Error(out) // each content is stored, with its hash
	}
	t.Logf("%d writes, 5 kills", total)
}

func find(p *project, sub string) int {
	for _, pid := range p.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if f := strings.Split(string(args), "\x00"); len(f) > 1 && f[1] == sub {
			return pid
		}
	}
	return 0
}

// TestMountdKilled: another mountd takes over, and every version from before and after is known.
func TestMountdKilled(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	p.mount()
	for i := 2; i <= 20; i++ {
		p.write("a.txt", fmt.Sprintf("%d\n", i))
	}
	before := p.log("a.txt", "--baselines")
	if len(before) < 20 {
		t.Fatalf("only %d versions before the kill", len(before))
	}
	p.write("late.txt", "late\n")
	if err := syscall.Kill(p.process("mountd"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(p.path("a.txt")); err != nil || string(text) != "20\n" {
		t.Errorf("a.txt: %q, %v", text, err)
	}
	if got, err := os.ReadFile(p.path("late.txt")); err != nil || string(got) != "late\n" {
		t.Errorf("late.txt: %q, %v", got, err)
	}
	if !mounted(p.dir) {
		t.Fatal("nobody took the mount over")
	}
	after := p.log("a.txt", "--baselines")
	for i, e := range before {
		if i >= len(after) || after[i].Seq != e.Seq || after[i].Hash != e.Hash {
			t.Fatalf("version %d of a.txt is not as before the kill", i+1)
		}
	}
	p.wantContents("late.txt", "late\n")
	p.write("a.txt", "21\n")
	p.wantContents("a.txt", "20\n", "21\n")
}

// TestSuccessorsKilled: whatever kills mountd, such as a lack of memory, kills the next mountds too,
// before they answer. The supervisor used to give up after one, so the mount was detached and
// programs got ENOTCONN.
func TestSuccessorsKilled(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	p.mount()
	f, err := os.OpenFile(p.path("a.txt"), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	killed := map[int]bool{0: true}
	for range 3 {
		pid := 0
		eventually(t, time.Minute, "another mountd runs", func() bool { pid = find(p, "mountd"); return !killed[pid] })
		killed[pid] = true
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteString("2\n"); err != nil {
		t.Error(err)
	}
	f.Close()
	if text, err := os.ReadFile(p.path("a.txt")); err != nil || string(text) != "1\n2\n" {
		t.Errorf("a.txt: %q, %v", text, err)
	}
	if !mounted(p.dir) {
		t.Fatal("nobody took the mount over")
	}
	p.wantContents("a.txt", "1\n2\n")
}

// TestMountdKilledWithRemovedFiles: a file that is removed while it is open has no name, even after
// another mountd has taken over. The hard links by which the history saves git's own files do not
// count.
func TestMountdKilledWithRemovedFiles(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 8<<10)
	files := map[string]string{"plain": "1\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/objects/12/34": "blob", ".git/packed-refs": large, ".git/refs/heads/main": "1\n", ".git/config.lock": large}
	p := newProject(t, files)
	p.mount()
	open := map[string]*os.File{}
	for name := range files {
		f, err := os.Open(p.path(name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		open[name] = f
	}
	if err := os.Rename(p.path(".git/config.lock"), p.path(".git/packed-refs")); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if err := os.Remove(p.path(name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, killed := range []bool{false, true} {
		if killed {
			if err := syscall.Kill(p.process("mountd"), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.write("after", "2\n") // answered by another mountd
		}
		for name, f := range open {
			fi, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if n := fi.Sys().(*syscall.Stat_t).Nlink; n != 0 {
				t.Errorf("%s has %d names, killed %v", name, n, killed)
			}
			b := make([]byte, len(files[name])+1)
			if n, _ := f.ReadAt(b, 0); string(b[:n]) != files[name] {
				t.Errorf("%s holds %.20q and so on, %d bytes", name, b[:n], n)
			}
			if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, p.path("again"), unix.AT_SYMLINK_FOLLOW); err == nil {
				t.Errorf("%s has a name again", name)
			}
		}
	}
}

// TestSupervisorKilled: the mount continues without its supervisor and gets a new one, so that a
// later death of mountd does no harm either.
func TestSupervisorKilled(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	p.mount()
	old := p.process("supervise")
	_ = syscall.Kill(old, syscall.SIGKILL)
	eventually(t, 5*time.Second, "there is a new supervisor", func() bool {
		pid := find(p, "supervise")
		return pid > 0 && pid != old
	})
	p.write("a.txt", "2\n")
	p.wantContents("a.txt", "1\n", "2\n")
	old = p.process("mountd")
	_ = syscall.Kill(old, syscall.SIGKILL)
	p.write("a.txt", "3\n")
	p.wantContents("a.txt", "1\n", "2\n", "3\n")
	if now := p.process("mountd"); now == old || !mounted(p.dir) {
		t.Errorf("nobody took the mount over: mountd %d, then %d", old, now)
	}
}

// TestMountdCannotBeReplaced: if no mountd can take over (here because the binary is deleted),
// the dead mount is detached and the plain project is visible again.
func TestMountdCannotBeReplaced(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	copied := binary + ".copy" // the harness recognises cachebro's processes by this name
	t.Cleanup(func() { os.Remove(copied) })
	if out, err := exec.Command("cp", binary, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(copied, "mount", p.dir)
	cmd.Env, cmd.Dir = p.env, p.base
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.write("a.txt", "2\n")
	p.wantContents("a.txt", "1\n", "2\n")
	if err := os.Remove(copied); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(p.process("mountd"), syscall.SIGKILL)
	eventually(t, 20*time.Second, "the mount is detached", func() bool { return !mounted(p.dir) })
	if text, err := os.ReadFile(p.path("a.txt")); err != nil || string(text) != "2\n" {
		t.Errorf("a.txt: %q, %v", text, err)
	}
	eventually(t, 20*time.Second, "status tells how it ended", func() bool {
		return strings.Contains(p.cb("status", "--dir", p.dir), "the last mount ended by itself at ")
	})
	p.mount()
	if out := p.cb("status", "--dir", p.dir); strings.Contains(out, "ended by itself") {
		t.Errorf("still told after a new mount:\n%s", out)
	}
}

// TestStateDiskFull fills the state's file system. Programs on the mount continue, the gap is
// shown, and capture resumes when there is space again.
func TestStateDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root for a loop mount")
	}
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	image := filepath.Join(p.base, "state.img")
	state := filepath.Join(p.base, "state")
	for _, c := range [][]string{
		{"truncate", "-s", "300M", image},
		{"mkfs.ext4", "-q", "-m", "0", image},
		{"mount", "-o", "loop", image, state},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	// Cleanups run in reverse order, so the project's own cleanup runs after this one. This one
	// therefore unmounts and stops the processes itself.
	t.Cleanup(func() {
		if mounted(p.dir) {
			p.try("umount", p.dir)
		}
		for _, pid := range p.processes() {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		eventually(t, 15*time.Second, "all processes have ended", func() bool { return len(p.processes()) == 0 })
		// A process counts as ended when its memory is released, but it releases its files a moment
		// later.
		var err error
		for range 100 {
			if err = syscall.Unmount(state, 0); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("unmount the state: %v", err)
		detach(state)
	})
	p.mount()
	p.write("a.txt", "2\n")
	p.wantContents("a.txt", "1\n", "2\n")
	filler := filepath.Join(state, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	f.Sync()
	f.Close()
	for i := range 40 {
		start := time.Now()
		if err := os.WriteFile(p.path(fmt.Sprintf("big%d", i%4)), []byte(strings.Repeat(fmt.Sprintf("%d\n", i), 300_000)), 0o644); err != nil {
			t.Fatalf("a write on the mount failed while the state was full: %v", err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("write %d took %v", i, d)
		}
	}
	eventually(t, 10*time.Second, "status shows the gap", func() bool {
		out, _ := p.try("status", "--dir", p.dir)
		return strings.Contains(out, "not recorded") || strings.Contains(out, "not yet stored")
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, 30*time.Second, "capture resumes", func() bool {
		n++
		text := fmt.Sprintf("resumed %d\n", n)
		p.write("again.txt", text)
		time.Sleep(300 * time.Millisecond)
		out, err := p.try("show", p.path("again.txt"))
		return err == nil && out == text
	})
	out := p.cb("status", "--dir", p.dir)
	if !strings.Contains(out, "content not saved: big") {
		t.Errorf("status does not show the gaps any more:\n%s", out)
	}
}
