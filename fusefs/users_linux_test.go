package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	someUser  = 65534 // nobody
	someGroup = 54321
)

// as runs a script in the mount as an ordinary user with one additional group.
func (f *fixture) as(script string) (string, error) {
	cmd := f.enter(exec.Command("bash", "-ec", script))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someUser, Gid: someUser, Groups: []uint32{someGroup}}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// needRoot skips a test that has to become another user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
}

func open2All(t *testing.T, f *fixture) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(f.dir), 0o755); err != nil {
		t.Fatal(err)
	}
}

// An ordinary user can mount through fusermount3 if everybody may open /dev/fuse.
func TestOrdinaryUser(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Skip("no fusermount3")
	}
	root, err := os.MkdirTemp("", testDirs)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(root, "test")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, b, 0o755)
	}
	dir := filepath.Join(root, "a, project") // the comma must survive the option string
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = os.Chown(dir, someUser, someUser)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../scripts/ownfuse.sh", "666", "setpriv", fmt.Sprintf("--reuid=%d", someUser), fmt.Sprintf("--regid=%d", someUser), "--clear-groups", exe, dir)
	cmd.Env = append(os.Environ(), helperEnv+"=user")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func init() { helpers["user"] = func(args []string) error { return mountAsUser(args[0]) } }

func mountAsUser(dir string) error {
	source, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := Mount(Options{Source: source, Mountpoint: dir, AllowOther: true}); err == nil {
		_ = Detach(dir)
		if b, _ := os.ReadFile("/etc/fuse.conf"); !strings.Contains(string(b), "\nuser_allow_other") {
			return fmt.Errorf("allow_other was allowed")
		}
	}
	rec := &recorder{}
	s, err := Mount(Options{Source: source, Mountpoint: dir, Observer: rec})
	if err != nil {
		return err
	}
	table, _ := os.ReadFile("/proc/mounts")
	out, err := exec.Command("bash", "-ec", `cd "$1"; echo x > a; chmod 400 a; cat a; ln a b; mv a c; mkdir d; rm -f b c; rmdir d; ls -A`, "-", dir).CombinedOutput()
	if err != nil || string(out) != "x\n" {
		_ = Detach(dir)
		return fmt.Errorf("%v: %s", err, out)
	}
	if err := s.Unmount(); err != nil {
		return err
	}
	want := `done create a|closed create a "x\n"|done chmod a|opened a|done link a b|done rename a c|done mkdir d|before unlink b "x\n"|done unlink b|before unlink c "x\n"|done unlink c|done rmdir d`
	if got := strings.Join(rec.take(), "|"); got != want {
		return fmt.Errorf("recorded %s", got)
	}
	if !strings.Contains(string(table), " fuse.cachebro rw,nosuid,nodev") {
		return fmt.Errorf("mount table:\n%s", table)
	}
	return nil
}

// Extended attributes are passed through, and so are the errors.
func TestXattr(t *testing.T) {
	f := mountTest(t, nil)
	f.write("a", "x")
	name := filepath.Join(f.dir, "a")
	if err := unix.Setxattr(name, "user.color", []byte("blue"), 0); err != nil {
		if err == unix.EOPNOTSUPP {
			t.Skip("none on this file system")
		}
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := unix.Getxattr(filepath.Join(f.src, "a"), "user.color", buf); err != nil || string(buf[:n]) != "blue" {
		t.Errorf("on the source: %q, %v", buf[:max(n, 0)], err)
	}
	if n, err := unix.Listxattr(name, buf); err != nil || string(buf[:n]) != "user.color\x00" {
		t.Errorf("listed %q, %v", buf[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(name, "user.none", buf); err != unix.ENODATA {
		t.Errorf("absent: %v", err)
	}
	if _, err := unix.Getxattr(name, "user.color", buf[:2]); err != unix.ERANGE {
		t.Errorf("too small: %v", err)
	}
	if err := unix.Removexattr(name, "user.color"); err != nil {
		t.Error(err)
	}
}

// The absence of an attribute is remembered until the file may have got the attribute, through the
// mount or by a change that bypasses it.
func TestAbsentXattrs(t *testing.T) {
	needRoot(t)
	f := mountTest(t, nil)
	f.write("a", "x")
	f.sh("cat a") // after that, the file no longer rests
	on, under := filepath.Join(f.dir, "a"), filepath.Join(f.src, "a")
	absent := unix.EOPNOTSUPP // with this error, ls asks once, and not for each file
	has := func(when string, want bool) {
		t.Helper()
		_, err := unix.Getxattr(on, label, make([]byte, 64))
		if want != (err == nil) || err != nil && err != absent {
			t.Errorf("%s: %v", when, err)
		}
	}
	set := func(name string) {
		t.Helper()
		if err := unix.Setxattr(name, label, []byte("x:y:z"), 0); err != nil {
			t.Fatal(err)
		}
	}
	has("at first", false)
	set(under)
	has("while no process is known to bypass the mount", false)
	f.srv.Beside("a", false, false)
	has("after the bypass was reported", true)
	absent = unix.ENODATA // from now on, one file has a label
	if err := unix.Removexattr(on, label); err != nil {
		t.Fatal(err)
	}
	has("removed", false)
	set(on)
	has("set", true)
	if err := unix.Removexattr(on, label); err != nil {
		t.Fatal(err)
	}
	has("removed again", false)
	f.srv.SetOutside(true)
	set(under)
	has("while somebody is beside the mount", true)
	f.srv.SetOutside(false)
	has("when nobody is any more", true)
}

// Wrong options cause an error that mentions them, and leave nothing behind.
func TestMountErrors(t *testing.T) {
	f := mountTest(t, nil)
	src, err := os.Open(f.src)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	before := openFDs(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ mountpoint, want string }{
		{"", "required"},
		{filepath.Join(t.TempDir(), "missing"), "no such file"},
		{file, "not a directory"},
	} {
		s, err := Mount(Options{Source: src, Mountpoint: test.mountpoint})
		if err == nil {
			_ = s.Unmount()
			t.Errorf("%q was mounted", test.mountpoint)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.mountpoint, err)
		}
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	h, err := os.Create(filepath.Join(f.dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.srv.Unmount(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("unmounted with an open file: %v", err)
	}
	h.Close()
	if err := Detach(filepath.Dir(f.dir)); err == nil || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("detached what is not mounted: %v", err)
	}
}

// Detach works while files are open. Afterwards the open files can still be used.
func TestDetach(t *testing.T) {
	f := mountTest(t, nil)
	f.write("a", "content")
	h, err := os.OpenFile(filepath.Join(f.dir, "a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := Detach(f.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteString("CON"); err != nil {
		t.Error(err)
	}
	if got := f.read("a"); got != "CONtent" {
		t.Errorf("the plain project has %q", got)
	}
	h.Close()
	f.srv.Wait()
}

// A file on a read-only mount can be read but not written.
func TestReadOnly(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.ReadOnly = true })
	f.under("echo x > a")
	if f.read("a") != "x\n" {
		t.Error("cannot read")
	}
	if err := os.WriteFile(filepath.Join(f.dir, "a"), nil, 0o644); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("write: %v", err)
	}
}

// The errors of a read-only source are passed on.
func TestReadOnlySource(t *testing.T) {
	needRoot(t)
	under := t.TempDir()
	if err := os.WriteFile(filepath.Join(under, "a"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(under, under, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Unmount(under, unix.MNT_DETACH) }()
	if err := unix.Mount("", under, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	src, err := os.Open(under)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	f := mountTest(t, func(o *Options) { o.Source = src })
	if got := f.sh("cat a; ls"); got != "xa\n" {
		t.Errorf("read %q", got)
	}
	for _, do := range []string{"echo y > a", "echo y >> a", "touch b", "rm a", "mv a b", "chmod 600 a", "mkdir d"} {
		out, err := exec.Command("bash", "-c", "cd "+f.dir+"; "+do).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "Read-only") {
			t.Errorf("%s: %v %s", do, err, out)
		}
	}
}

// The process that sent a request is reported with its name, ancestors, arguments and session, even
// if the request comes from a thread other than its first.
func TestCaller(t *testing.T) {
	f := mountTest(t, nil)
	cmd := f.enter(exec.Command("bash", "-c", "sleep 0; exec -a renamed dd if=/dev/zero of=a bs=1 count=1 status=none 2>/dev/null; true"))
	cmd.Env = append(os.Environ(), "CLAUDE_CODE_SESSION_ID=abc-123", "XCLAUDE_CODE_SESSION_ID=no")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "close", func() bool { f.rec.mu.Lock(); defer f.rec.mu.Unlock(); return len(f.rec.closes) == 1 })
	f.rec.mu.Lock()
	c := f.rec.closes[0].Writer
	f.rec.mu.Unlock()
	p := c.Proc
	if p == nil || p.PID != uint32(cmd.Process.Pid) || c.PID != p.PID || p.Comm != "dd" || p.Group == 0 {
		t.Fatalf("%+v %+v", c, p)
	}
	if p.Session["CLAUDE_CODE_SESSION_ID"] != "abc-123" || len(p.Session) != 1 {
		t.Errorf("session %v", p.Session)
	}
	if p.Parent == nil || p.Parent.PID != uint32(os.Getpid()) {
		t.Errorf("parent %+v", p.Parent)
	}
	if p.UID != uint32(os.Geteuid()) || p.Start == 0 {
		t.Errorf("%+v", p)
	}
}

// A shell opens the file that a command will write. When the file is closed, the shell's process
// has become that command, which must be reported.
func TestCallerAfterExec(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("(exec sort > a < /dev/null)")
	eventually(t, "close", func() bool { f.rec.mu.Lock(); defer f.rec.mu.Unlock(); return len(f.rec.closes) == 1 })
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	if c := f.rec.closes[0].Writer; c.Proc == nil || c.Proc.Comm != "sort" && c.Proc.Comm != "bash" {
		t.Errorf("%+v", c.Proc)
	}
}

// TestReservedBlocks: ordinary users cannot use the blocks that a file system reserves for root,
// although root has mounted the overlay. Their writes used to take these blocks.
func TestReservedBlocks(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	for _, make := range []error{os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20), os.Mkdir(disk, 0o755)} {
		if make != nil {
			t.Fatal(make)
		}
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "40", image}, {"mount", "-o", "loop", image, disk}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no disk of our own: %v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		if err := Detach(disk); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	f := mountTest(t, func(o *Options) {
		o.Source.Close()
		o.Source = source
	})
	open2All(t, f)
	for _, write := range []string{"dd if=/dev/zero of=f bs=1M 2>/dev/null", "fallocate -l 20M f && for i in 1 2 3; do fallocate -o $((i*1024*1024*10)) -l 10M f; done", "dd if=/dev/zero of=g bs=1M count=8 2>/dev/null; for i in 1 2 3 4 5 6; do cp g f$i; done"} {
		if out, err := f.as("{ " + write + "; } || true"); err != nil {
			t.Fatalf("%s: %v: %s", write, err, out)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		if free := int64(st.Bfree) * st.Bsize; free < 20<<20 {
			t.Errorf("%s: %d MiB are left of 25 that are reserved", write, free>>20)
		}
		if out, err := f.as("rm -f f* g"); err != nil {
			t.Fatal(out, err)
		}
	}
	f.sh("dd if=/dev/zero of=f bs=1M 2>/dev/null || true")
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	if free := int64(st.Bfree) * st.Bsize; free > 5<<20 {
		t.Errorf("root leaves %d MiB", free>>20)
	}
	f.sh("rm f")
}
