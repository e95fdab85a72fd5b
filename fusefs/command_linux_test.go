package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/procfs"
)

// closer returns the process that closed the file with this name, once it has been closed.
func (f *fixture) closer(name string) *Process {
	f.t.Helper()
	var p *Process
	eventually(f.t, "close of "+name, func() bool {
		f.rec.mu.Lock()
		defer f.rec.mu.Unlock()
		for _, c := range f.rec.closes {
			if c.File.Path() == name {
				p = c.Writer.Proc
			}
		}
		return p != nil
	})
	return p
}

// stays starts a program in the mount. The program ends when its standard input ends.
func (f *fixture) stays(cmd *exec.Cmd) {
	f.t.Helper()
	in, err := f.enter(cmd).StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
}

// The command of a process is the one with which its present program was started. If the arguments
// are megabytes long, only the beginning is recorded.
func TestCommand(t *testing.T) {
	f := mountTest(t, nil)
	f.stays(exec.Command("bash", "-c", `echo x > short; exec -a other sh -c "echo y > exec; read x"`))
	// 20 arguments of 100 KiB, because a single argument may have at most 128 KiB.
	f.stays(exec.Command("bash", "-c", `exec bash -c 'echo x > long; read x' bash $(printf "%0100000d " $(seq 20))`))
	cmd := exec.Command("/bin/sh", "-c", "echo x > user; read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 && sys.Points {
		open2All(t, f)
		f.under("chmod 777 .")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: someUser, Gid: someUser}
	}
	f.stays(cmd)
	for name, want := range map[string]string{"exec": "other\x00-c\x00echo y > exec; read x", "long": "bash\x00-c\x00echo x > long; read x\x00bash\x00…", "user": "/bin/sh\x00-c\x00echo x > user; read x"} {
		p := f.closer(name)
		eventually(t, "command of the writer of "+name, func() bool { return p.Command() != nil })
		c := p.Command()
		if got := c.Args(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if c.Dir == "" {
			t.Errorf("%s: no working directory", name)
		}
	}
	// A process that ends at once still has a name.
	if p := f.closer("short"); p.Comm != "bash" {
		t.Errorf("%+v", p.Comm)
	}
	f.sh("echo x > gone")
	if p := f.closer("gone"); p.Comm != "bash" {
		t.Errorf("%+v", p.Comm)
	}
}

// The command of a process cannot be read while its memory is locked, here until one of its own
// requests is answered. Such a process works on the mount like any other, because commands are only
// shown to people and no request waits for them. Requests used to wait for the command, which took
// a second and found nothing.
func TestUnreadableCommand(t *testing.T) {
	locked := make(chan struct{})
	var asked atomic.Int32
	f := mountTest(t, func(o *Options) {
		o.commandOf = func(p *Process) *Command {
			asked.Add(1)
			<-locked
			return commandOf(p)
		}
	})
	open := sync.OnceFunc(func() { close(locked) })
	t.Cleanup(open)
	f.stays(exec.Command("bash", "-c", "echo x > a; read x"))
	p := f.closer("a")
	if p.Comm != "bash" || p.Parent == nil || p.Command() != nil {
		t.Errorf("closed by %q, command known: %v", p.Comm, p.Command() != nil)
	}
	for i := range commandsAtOnce / 2 { // each script starts three processes, together more than may be examined at a time
		f.sh(fmt.Sprintf("mkdir d%d; echo x > d%d/f; /bin/mv d%d/f e%d", i, i, i, i))
	}
	if n := asked.Load(); n != commandsAtOnce {
		t.Errorf("%d looks at once", n)
	}
	open()
	eventually(t, "end of the looks", func() bool { return len(f.srv.fs.procs.commands.slots) == 0 })
}

// A program that has just started and makes many files is not examined for each of them, because an
// examination takes a third as long as making a file. The first files are examined, because a shell
// may make the output file of a program before it executes the program.
func TestYoungProgramIsNotLookedAtForEachFile(t *testing.T) {
	st, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	procs := newProcesses()
	young := &Process{PID: uint32(os.Getpid()), Start: st.Start + 1<<20, Comm: st.Comm, Image: st.Image} // stays young for three hours
	looked, begin := 0, time.Now()
	for range 1000 {
		if procs.peek(young) {
			looked++
		}
	}
	if most := freePeeks + 1 + int(time.Since(begin)/trustWrite); looked < freePeeks || looked > most {
		t.Errorf("looked %d times, %d to %d wanted", looked, freePeeks, most)
	}
	eventually(t, "another look later", func() bool { return procs.peek(young) })
}
