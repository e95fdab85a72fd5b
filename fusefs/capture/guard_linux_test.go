package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// stuck is a file whose reading blocks a worker.
type stuck struct {
	fusefs.File
	id      uint64
	mark    atomic.Uint32
	entered chan<- struct{}
	release <-chan struct{} // closed by the test
}

func (s *stuck) ID() uint64           { return s.id }
func (s *stuck) Path() string         { return "" }
func (s *stuck) Mark() *atomic.Uint32 { return &s.mark }
func (s *stuck) Open() (int, error) {
	s.entered <- struct{}{}
	<-s.release
	return -1, errors.New("stuck")
}

// hangWorkers blocks all workers of a Capture until the returned function is called.
func hangWorkers(c *Capture) func() {
	entered, release := make(chan struct{}), make(chan struct{})
	for i := range c.opt.Workers {
		r := &spool.Record{Kind: spool.KindVersion, Op: event.OpWrite, Path: "stuck", Stat: event.Stat{Ino: uint64(i), Size: 1}, HasContent: true}
		c.append(r)
		c.enqueue(&job{f: &stuck{id: 1<<62 + uint64(i), entered: entered, release: release}, rec: r, done: make(chan struct{})}, false)
		<-entered
	}
	return sync.OnceFunc(func() { close(release) })
}

// The content of a closed file that waits to be copied must not be changed before it is copied.
// This holds for every kind of change, and whether the file then has the same name, another name or
// no name.
func TestQueuedContentIsGuarded(t *testing.T) {
	m := mount(t, map[string]string{".gitignore": "*.ign\n", ".git/HEAD": "ref: refs/heads/main\n"}, nil)
	at := func(p string) string { return m.dir + "/" + p }
	closed := func(f *os.File) error { // closes another descriptor of the file that f is open on
		g, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
		if err == nil {
			_, err = g.WriteString(big)
			err = errors.Join(err, g.Close())
		}
		return err
	}
	written := func(f *os.File) error { _, err := f.WriteString(big); return err }
	states := []struct {
		name  string
		write func(f *os.File) error
		then  func(p string) error
	}{
		{"named", closed, func(string) error { return nil }},
		{"unlinked", closed, func(p string) error { return os.Remove(at(p)) }},
		{"replaced", closed, func(p string) error {
			return errors.Join(os.WriteFile(at(p+".new"), nil, 0o644), os.Rename(at(p+".new"), at(p)))
		}},
		{"in .git", closed, func(p string) error { return os.Rename(at(p), at(".git/"+p)) }},
		{"ignored", closed, func(p string) error { return os.Rename(at(p), at(p+".ign")) }},
		{"unlinked while dirty", written, func(p string) error { return os.Remove(at(p)) }},
		{"in .git while dirty", written, func(p string) error { return os.Rename(at(p), at(".git/"+p)) }},
		{"ignored while dirty", written, func(p string) error { return os.Rename(at(p), at(p+".ign")) }},
	}
	changes := []struct {
		name string
		do   func(f *os.File) error // nil means through a mapping in another process
	}{
		{"write", func(f *os.File) error { _, err := f.WriteAt([]byte("LATER"), 1000); return err }},
		{"truncate", func(f *os.File) error {
			_, err := f.WriteAt([]byte(strings.ToUpper(big)), 0)
			return errors.Join(f.Truncate(0), err, f.Truncate(int64(len(big))))
		}},
		{"mapping", nil},
		{"fallocate", func(f *os.File) error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 8192)
		}},
	}
	release := hangWorkers(m.c)
	defer release()
	var ops sync.WaitGroup
	begun := make(chan struct{})
	want := map[string]string{} // path → case
	for i, s := range states {
		for j, c := range changes {
			p := fmt.Sprintf("f%d%d", i, j)
			want[p] = s.name + ", " + c.name
			f, err := os.OpenFile(at(p), os.O_CREATE|os.O_RDWR, 0o644)
			if err == nil {
				err = errors.Join(s.write(f), s.then(p))
			}
			if err != nil {
				t.Fatalf("%s: %v", want[p], err)
			}
			do := func() error { return c.do(f) }
			if c.do == nil {
				do = mapped(t, f)
			}
			ops.Add(1)
			go func() {
				defer ops.Done()
				defer f.Close()
				<-begun
				if err := do(); err != nil {
					t.Errorf("%s: %v", want[p], err)
				}
			}()
		}
	}
	close(begun)
	// By now every change that capture does not delay has been made. On a machine that is too slow
	// for that, the test detects less but does not fail.
	time.Sleep(200 * time.Millisecond)
	release()
	ops.Wait()
	log := m.end()
	told := map[string]string{} // path → reasons of gaps
	for _, e := range log {
		if e.Kind == spool.KindGap {
			told[e.Path] += e.Reason
		}
	}
	for _, e := range log {
		if e.Kind != spool.KindVersion || !e.HasContent || e.Stat.Size != int64(len(big)) || e.Op != event.OpCreate && e.Op != event.OpWrite || want[e.Path] == "" {
			continue
		}
		c := want[e.Path]
		delete(want, e.Path) // a later version does not count if the file has kept its name
		switch {
		case !e.missing && e.content != big:
			t.Errorf("%s: the version holds later bytes", c)
		case e.missing && !strings.Contains(told[e.Path], "too slow"):
			t.Errorf("%s: no content, because of %q", c, told[e.Path])
		}
	}
	for _, c := range want {
		t.Errorf("%s: no version", c)
	}
}

// mapped starts a process that maps f. The returned function makes that process write to the
// mapping.
func mapped(t *testing.T, f *os.File) func() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MOUNTD_TEST_STORE=1")
	cmd.ExtraFiles = []*os.File{f}
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
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal("it does not map: ", err)
	}
	return func() error { return errors.Join(in.Close(), cmd.Wait()) }
}

// storeThroughMapping is the program that mapped starts.
func storeThroughMapping() error {
	b, err := syscall.Mmap(3, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	fmt.Print(b[0] & 1)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	copy(b[100:], bytes.Repeat([]byte{'M'}, 100))
	return errors.Join(unix.Msync(b, unix.MS_SYNC), syscall.Munmap(b))
}
