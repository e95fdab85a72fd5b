package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProcesses checks what is reported about this process, about a child, and about the child
// after it has ended.
func TestProcesses(t *testing.T) {
	self := os.Getpid()
	st, err := ReadStat(self)
	if err != nil || st.Parent != os.Getppid() || st.Start == 0 || st.Flags&Exiting != 0 {
		t.Fatalf("stat of this process: %+v, %v", st, err)
	}
	if killed, err := KillPending(self); killed || err != nil {
		t.Errorf("SIGKILL is pending for this process: %v, %v", killed, err)
	}
	if got := Args(self); !slices.Equal(got, os.Args) {
		t.Errorf("arguments %q, want %q", got, os.Args)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if !slices.Contains(All(), pid) {
		t.Errorf("process %d is not among all", pid)
	}
	if st, err := ReadStat(pid); err != nil || st.Parent != self {
		t.Errorf("stat of the child: %+v, %v", st, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if st, err := ReadStat(pid); err == nil && st.State == 'Z' {
			break
		} else if time.Now().After(end) {
			t.Fatalf("a killed child shows as %+v, %v", st, err)
		}
	}
	_ = cmd.Wait()
	if _, err := ReadStat(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of a process that is gone: %v", err)
	}
	if _, err := KillPending(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("signals of a process that is gone: %v", err)
	}
}

// TestCaller checks, with this process as the caller, what the overlay asks about a caller.
func TestCaller(t *testing.T) {
	self := os.Getpid()
	t.Setenv("AFTER_THE_START", "1")
	if pid, _, ok := Thread(self); pid != self || !ok {
		t.Errorf("the process of thread %d is %d, %v", self, pid, ok)
	}
	if uid, ok := Owner(self); int(uid) != os.Geteuid() || !ok {
		t.Errorf("owner %d, %v", uid, ok)
	}
	st, err := ReadStat(self)
	if comm, err2 := Comm(self); err != nil || err2 != nil || comm != st.Comm || comm == "" {
		t.Errorf("name %q and %q, %v, %v", comm, st.Comm, err, err2)
	}
	if age, ok := Age(st.Start); !ok || age < 0 || age > time.Hour {
		t.Errorf("started %v ago, %v", age, ok)
	}
	if began := time.Unix(0, Zero()).Add(time.Duration(st.Start) * Tick); time.Since(began) < -time.Second || time.Since(began) > time.Hour {
		t.Errorf("began at %v", began)
	}
	if b, err := Begin(self, 3); err != nil || string(b) != os.Args[0][:3] {
		t.Errorf("the arguments begin with %q, %v", b, err)
	}
	env, err := Environ(self)
	if path := "PATH=" + os.Getenv("PATH") + "\x00"; err != nil || !strings.Contains("\x00"+string(env), "\x00"+path) || strings.Contains(string(env), "AFTER_THE_START") {
		t.Errorf("environment %q, %v", env, err)
	}
	dir, _ := os.Getwd()
	if dir, err = filepath.EvalSymlinks(dir); err != nil || Dir(self) != dir {
		t.Errorf("working directory %q, not %q, %v", Dir(self), dir, err)
	}
	if id := BootID(); id == "unknown" || len(id) != 36 {
		t.Errorf("boot %q", id)
	}
	if _, _, ok := Thread(1 << 30); ok {
		t.Error("a thread that cannot be")
	}
}

// After sshd had overwritten its arguments, 250 empty arguments used to be reported.
func TestSplitArgs(t *testing.T) {
	for line, want := range map[string][]string{
		"sh\x00-c\x00ls -l\x00":                     {"sh", "-c", "ls -l"},
		"touch\x00\x00":                             {"touch", ""},
		"sh\x00-c\x00\x00\x00\x00":                  {"sh", "-c", "", "", ""},
		"sshd: root [priv]\x00\x00\x00\x00\x00\x00": {"sshd: root [priv]"},
		"postgres: writer":                          {"postgres: writer"},
		"a\x00b":                                    {"a", "b"},
	} {
		if got := SplitArgs([]byte(line)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
