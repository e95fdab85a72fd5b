package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cachebro/store/wire"
)

func TestReadRefuses(t *testing.T) {
	p := newProject(t)
	outside := filepath.Join(filepath.Dir(p.root), "secret")
	if err := os.WriteFile(outside, []byte("not yours"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("dir/real.txt", "real\n")
	for name, target := range map[string]string{
		"in": "dir/real.txt", "dir/up": "../dir/real.txt", "out": "../secret", "abs": outside, "loop": "loop", "gone": "nowhere", "proc": "/proc/self/root/etc/passwd", "dirlink": "..",
	} {
		if err := os.Symlink(target, filepath.Join(p.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(p.root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("bin", "a\x00b")
	p.start()
	c := p.dial("cli")
	read := func(path string) (wire.ReadAnswer, string, error) {
		var a wire.ReadAnswer
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		b, err := c.Call(ctx, wire.MRead, wire.ReadRequest{Path: []byte(path), Tool: "read"}, nil, &a)
		return a, string(b), err
	}
	for path, want := range map[string]error{
		"../secret": wire.ErrOutside, "dir/../../secret": wire.ErrOutside, "dir/../dir/real.txt": wire.ErrOutside, outside: wire.ErrOutside, "/etc/passwd": wire.ErrOutside,
		"out": wire.ErrOutside, "abs": wire.ErrOutside, "proc": wire.ErrOutside, "dirlink/secret": wire.ErrOutside, "loop": wire.ErrOutside,
		"dir": wire.ErrIsDir, "": wire.ErrIsDir, "fifo": wire.ErrNotRegular, "gone": wire.ErrNotFound, "none": wire.ErrNotFound,
		"dir/real.txt/x": wire.ErrNotFound, "a\x00b": wire.ErrBadRequest, strings.Repeat("x", 300): wire.ErrNotFound,
	} {
		if _, body, err := read(path); !errors.Is(err, want) || body != "" {
			t.Errorf("%.40q: %q, %v, want %v", path, body, err, want)
		}
	}
	for _, path := range []string{"dir/real.txt", "in", "dir/up", "./dir//real.txt", filepath.Join(p.root, "dir/real.txt")} {
		if a, body, err := read(path); err != nil || body != "real\n" || a.Kind != wire.ReadFull {
			t.Errorf("%s: %q, %+v, %v", path, body, a, err)
		}
	}
	if a, body, err := read("bin"); err != nil || !a.Binary || body != "" {
		t.Errorf("binary: %+v, %q, %v", a, body, err)
	}
	if _, err := c.Call(context.Background(), wire.MRead, wire.ReadRequest{Path: []byte("bin"), Offset: -1}, nil, nil); !errors.Is(err, wire.ErrBadRequest) {
		t.Errorf("negative offset: %v", err)
	}
	if _, err := c.Call(context.Background(), "no-such-method", nil, nil, nil); !errors.Is(err, wire.ErrUnsupported) {
		t.Errorf("unknown method: %v", err)
	}
}

// Without a mount, a change is found at the next request and becomes a version.
func TestUnmountedChangesAreSeen(t *testing.T) {
	p := newProject(t)
	p.write("a", "one\n")
	p.start()
	c := p.dial("cli")
	show := func(n int) string {
		t.Helper()
		b, err := c.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("a"), Number: n}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := show(0); got != "one\n" {
		t.Fatalf("%q", got)
	}
	p.write("a", "two\n")
	if got := show(0); got != "two\n" {
		t.Fatalf("%q", got)
	}
	if got := show(1); got != "one\n" {
		t.Fatalf("%q", got)
	}
	if err := os.Remove(filepath.Join(p.root, "a")); err != nil {
		t.Fatal(err)
	}
	vs := p.log(c, wire.LogQuery{Path: []byte("a"), Baselines: true})
	if len(vs) != 3 || vs[0].Op != "unlink" || !vs[0].Deleted || vs[1].Op != "seen" || vs[2].Op != "baseline" {
		t.Errorf("%+v", vs)
	}
	if st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); st.Mounted {
		t.Error("it says mounted")
	}
}

// 50 readers read at the same time while files change. No reader gets another reader's bytes, and a
// handler that fails does not affect the others.
func TestManyReaders(t *testing.T) {
	p := newProject(t)
	for i := range 10 {
		p.write(fmt.Sprint("f", i), strings.Repeat(fmt.Sprintf("line of file %d\n", i), 100))
	}
	p.start()
	c := p.dial("hook")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for j := range 20 {
				name := fmt.Sprint("f", (i+j)%10)
				var a wire.ReadAnswer
				b, err := c.Call(context.Background(), wire.MRead, wire.ReadRequest{Reader: wire.Reader{Session: fmt.Sprint("s", i)}, Path: []byte(name), Tool: "read"}, nil, &a)
				if err != nil {
					t.Error(err)
					return
				}
				if a.Kind == wire.ReadFull && !strings.HasPrefix(string(b), "line of file "+name[1:]) || j < 10 && a.Kind != wire.ReadFull || j >= 10 && a.Kind != wire.ReadUnchanged {
					t.Errorf("%s, %d. time: %s, %.30q", name, j/10+1, a.Kind, b)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkReread(b *testing.B) {
	p := newProject(b)
	p.write("f.go", strings.Repeat("a line of code that is neither long nor short\n", 400))
	p.start()
	p.attach()
	c := p.dial("hook")
	kinds := map[string]int{}
	for b.Loop() {
		var a wire.ReadAnswer
		if _, err := c.Call(context.Background(), wire.MRead, wire.ReadRequest{Reader: wire.Reader{Session: "s"}, Path: []byte("f.go"), Tool: "read"}, nil, &a); err != nil {
			b.Fatal(err)
		}
		kinds[a.Kind]++
	}
	b.ReportMetric(float64(kinds[wire.ReadFull])/float64(b.N), "full/op")
}

// After an umount the daemon used to keep the project's directory open, so the file system below
// was "busy" for ten minutes.
func TestSourceIsLetGo(t *testing.T) {
	p := newProject(t)
	p.write("a.go", "package a\n")
	p.start()
	p.attach()
	c := p.dial("cli")
	eventually(t, "baseline", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	held := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc")
		}
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); to == p.root {
				n++
			}
		}
		return n
	}
	if held() == 0 {
		t.Fatal("nothing holds the project while it is mounted: the test looks in the wrong place")
	}
	ask[wire.Empty](p, c, wire.MDetach, wire.Detach{PID: os.Getpid()})
	eventually(t, "the directory is let go after the unmount", func() bool { return held() == 0 })
	// A request without a mount opens the directory again for a moment.
	if body, err := c.Call(context.Background(), wire.MRead, wire.ReadRequest{Path: []byte("a.go")}, nil, nil); err != nil || len(body) == 0 {
		t.Errorf("read without a mount: %q, %v", body, err)
	}
	eventually(t, "the directory is let go after a read", func() bool { return held() == 0 })
}

// The first scan used to go into a procfs that was mounted inside the project, and to read its
// files.
func TestSourceStaysOutOfTheKernel(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	p := newProject(t)
	for name, kind := range map[string]string{"proc": "proc", "memory": "tmpfs"} {
		point := filepath.Join(p.root, name)
		if err := os.Mkdir(point, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(kind, point, kind, 0, ""); err != nil {
			t.Skipf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	p.write("memory/a.txt", "in memory\n")
	p.write("b.txt", "plain\n")
	p.start()
	p.attach()
	c := p.dial("cli")
	var st wire.Status
	eventually(t, "baseline", func() bool { st = ask[wire.Status](p, c, wire.MStatus, wire.Empty{}); return st.Baseline.Done })
	if st.Baseline.Files != 2 {
		t.Errorf("the scan took in %d files, not the two that are there", st.Baseline.Files)
	}
	if _, err := c.Call(context.Background(), wire.MRead, wire.ReadRequest{Path: []byte("proc/version")}, nil, nil); !errors.Is(err, wire.ErrPermission) {
		t.Errorf("a file of procfs: %v", err)
	}
}
