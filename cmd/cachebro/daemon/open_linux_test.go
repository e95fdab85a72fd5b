package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/find"
	"cachebro/store/leaf/event"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Each step of the start that can fail is made to fail, one after another. The daemon used to
// report "invalid memory address" instead of the cause.
func TestEachStepOfTheStartFails(t *testing.T) {
	file := func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte("in the way\n"), 0o600)
	}
	for _, c := range []struct {
		name string
		do   func(p *project) error
		want string // expected in the error; "": it starts nevertheless
	}{
		{"the state is a file", func(p *project) error {
			if err := os.RemoveAll(p.state); err != nil {
				return err
			}
			return file(p.state)
		}, "is not a directory"},
		{"the lock is a directory", func(p *project) error { return os.Mkdir(filepath.Join(p.state, "lock"), 0o700) }, "lock"},
		{"the log is a directory", func(p *project) error { return os.Mkdir(wire.LogFile(p.state), 0o700) }, "open log"},
		{"the store is a file", func(p *project) error { return file(filepath.Join(p.state, "store")) }, "store"},
		{"the store is damaged", func(p *project) error { return file(filepath.Join(p.state, "store", "db", "MANIFEST")) }, "damaged"},
		{"the spool is a file", func(p *project) error { return file(wire.SpoolDir(p.state)) }, "open spool"},
		{"the spool's lock is a directory", func(p *project) error {
			return os.MkdirAll(filepath.Join(wire.SpoolDir(p.state), "writer.lock"), 0o700)
		}, "open spool"},
		{"the index is a file", func(p *project) error { return file(find.IndexDir(p.state)) }, ""},
		{"the note of the socket is a directory", func(p *project) error { return os.MkdirAll(filepath.Join(p.state, "socket", "x"), 0o700) }, "socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject(t)
			if err := c.do(p); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o := p.opt
			o.Ready = cancel // it has started and may end
			err := Run(ctx, o)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, wanted an error with %q", err, c.want)
			}
		})
	}
}

// limited puts the state on a file system of size bytes.
func (p *project) limited(size string) {
	p.t.Helper()
	if os.Getuid() != 0 {
		p.t.Skip("needs root to mount a small file system")
	}
	base := filepath.Dir(p.state)
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, "mode=700,size="+size); err != nil {
		p.t.Skipf("no small file system: %v", err)
	}
	p.t.Cleanup(func() {
		if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
			p.t.Error(err)
		}
	})
	if _, err := p.paths.MakeState(p.root); err != nil {
		p.t.Fatal(err)
	}
}

// disk puts the state on a disk of its own with an ordinary file system.
func (p *project) disk(size int64) {
	p.t.Helper()
	if os.Getuid() != 0 {
		p.t.Skip("needs root to mount a small disk")
	}
	image := filepath.Join(filepath.Dir(p.root), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		p.t.Fatal(err)
	}
	base := filepath.Dir(p.state)
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, base}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			p.t.Skipf("no small disk: %v: %s", err, out)
		}
	}
	p.t.Cleanup(func() {
		if err := unix.Unmount(base, unix.MNT_DETACH); err != nil {
			p.t.Error(err)
		}
	})
	if _, err := p.paths.MakeState(p.root); err != nil {
		p.t.Fatal(err)
	}
}

// startOrSay starts a child and waits until it answers or ends. If it ends, said is what it printed
// to stderr.
func (p *project) startOrSay(cmd *exec.Cmd) (said string, answers bool) {
	p.t.Helper()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.t.Cleanup(func() { // runs before the cleanup of child, which waits for the process as well
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c, err := wire.Dial(context.Background(), p.paths, wire.Hello{Version: "1.0", Client: "cli", Root: p.root}, wire.Timeouts{}); err == nil {
			c.Close()
			return "", true
		}
		select {
		case <-ended:
			b, _ := os.ReadFile(filepath.Join(filepath.Dir(p.root), "stderr"))
			return string(b), false
		default:
		}
	}
	p.t.Fatal("it neither answers nor ends")
	return "", false
}

// With little room for the state directory, the daemon used to panic at its start, which hid the
// real reason. If mount finds enough room, the daemon must start, and new records wait in the
// spool.
func TestLittleRoom(t *testing.T) {
	enough := map[string]bool{"46m": true, "41m": true, "38m": true, "35m": true, "33m": true} // mount asks for 32 MiB
	for _, size := range []string{"46m", "41m", "38m", "35m", "33m", "12m", "1m"} {
		t.Run(size, func(t *testing.T) {
			p := newProject(t)
			p.limited(size)
			p.write("a.go", "package a\n")
			said, answers := p.startOrSay(p.child(""))
			if !answers && (enough[size] || !strings.Contains(said, "space") || strings.Contains(said, "goroutine ")) {
				t.Errorf("it does not start and says %q", said)
			}
		})
	}
}

// A daemon starts on a disk that is completely full and has no ballast left to release. Its
// history can be read.
func TestFullDiskStarts(t *testing.T) {
	p := newProject(t)
	p.disk(160 << 20)
	cmd := p.child("")
	p.answers()
	p.closed(event.OpWrite, "a.txt", []byte("kept\n"), nil)
	c := p.dial("cli")
	eventually(t, "the version is stored", func() bool { return len(p.log(c, wire.LogQuery{})) == 1 })
	c.Close()
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(filepath.Dir(p.state), "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for b := make([]byte, size); ; {
			if _, err := fill.Write(b); err != nil {
				break
			}
		}
	}
	if said, answers := p.startOrSay(p.child("")); !answers {
		b, _ := os.ReadFile(wire.LogFile(p.state))
		t.Fatalf("it does not start: %s\n%s", said, b)
	}
	c = p.dial("cli")
	vs := p.log(c, wire.LogQuery{})
	if len(vs) != 1 || string(vs[0].Path) != "a.txt" {
		t.Fatalf("the log says %+v", vs)
	}
	body, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Seq: vs[0].Seq}, nil, nil)
	if err != nil || string(body) != "kept\n" {
		t.Errorf("the content is %q, %v", body, err)
	}
	if st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); st.Store.Versions == 0 {
		t.Errorf("status: %+v", st)
	}
	if a := ask[wire.SessionAnswer](p, c, wire.MSession, wire.SessionEvent{Event: "start", Session: "s"}); a.Unsaved == "" {
		t.Error("it does not say that the session is not stored")
	}
}
