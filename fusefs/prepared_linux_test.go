package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A file that a thread has prepared appears with its full content at the thread's mknod(2). It is
// reported like a file that was written and closed. Another thread's mknod does not make that file.
// The attribute by which the file was prepared is not stored.
func TestPrepared(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("mkdir d e")
	f.rec.take()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	prepare := func(files ...event.PreparedFile) {
		t.Helper()
		b, err := event.EncodePrepared(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Setxattr(filepath.Join(f.dir, "d"), event.Prepared, b, 0); err != nil {
			t.Fatal(err)
		}
	}
	mknod := func(name string) error { return unix.Mknod(filepath.Join(f.dir, name), unix.S_IFREG|0o644, 0) }
	made := time.Unix(1234, 5678).UnixNano()
	prepare(event.PreparedFile{Name: []byte("a"), Mode: 0o640, Mtime: made, Content: []byte("first")},
		event.PreparedFile{Name: []byte("b\xff"), Mode: 0o4755, Mtime: made, Content: []byte("second")},
		event.PreparedFile{Name: []byte("c"), Mode: 0o644, Mtime: made, Content: []byte("third")})
	for _, name := range []string{"d/a", "d/b\xff", "e/c"} {
		if err := mknod(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := mknod("d/a"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("made twice: %v", err)
	}
	f.sh("mknod d/c p; rm d/c; : >d/c") // another process makes files, and one of them is not a regular file
	f.want(t, `done create d/a`, `closed create d/a "first"`, "done create d/b\xff", "closed create d/b\xff \"second\"",
		`done create e/c`, `closed create e/c ""`, `done mknod d/c`, `done unlink d/c`, `done create d/c`, `closed create d/c ""`)
	for name, want := range map[string]string{"d/a": "first", "d/b\xff": "second", "e/c": "", "d/c": ""} {
		if got := f.read(name); got != want {
			t.Errorf("%q has %q, want %q", name, got, want)
		}
	}
	for name, mode := range map[string]os.FileMode{"d/a": 0o640, "d/b\xff": 0o755} {
		fi, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != mode || fi.ModTime().UnixNano() != made {
			t.Errorf("%q has mode %v and time %v", name, fi.Mode(), fi.ModTime())
		}
	}
	if n, err := unix.Listxattr(filepath.Join(f.dir, "d"), nil); n != 0 || err != nil {
		t.Errorf("the directory has attributes: %d bytes, %v", n, err)
	}
	if err := unix.Setxattr(f.dir, event.Prepared, []byte("x"), 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("nonsense is taken: %v", err)
	}
}

// A plan brings many files back into a directory. The mount may lose some prepared files, as it
// does when another server takes over, and another process may make a file first.
func TestPreparedByPlan(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("mkdir d; echo mine >d/f7; chmod g+s d")
	f.rec.take()
	made := time.Unix(1234, 5678).UnixNano()
	contents := map[int][]byte{}
	var steps []wire.PlanStep
	for n := range 100 {
		contents[n] = fmt.Appendf(nil, "content %d\n", n)
		if n == 11 {
			contents[n] = nil
		}
		steps = append(steps, wire.PlanStep{N: n, Do: "write", Path: fmt.Appendf(nil, "d/f%d", n), Expect: "absent",
			Hash: text.Hash(contents[n]), Size: int64(len(contents[n])), Mode: []uint32{0o644, 0o600, 0o755}[n%3], Mtime: made})
	}
	lost := false
	work := apply.Work{
		Fetch: func(_ context.Context, ns []int) (all [][]byte, err error) {
			for _, n := range ns {
				all = append(all, contents[n])
			}
			return all, nil
		},
		After: func(n int) error {
			if !lost { // lose the files that are prepared at this moment
				lost = true
				p := &f.srv.fs.prepared
				p.mu.Lock()
				defer p.mu.Unlock()
				clear(p.by)
			}
			return nil
		},
	}
	res, err := apply.Plan(t.Context(), f.dir, wire.Plan{ID: "p1", Steps: steps}, work)
	if err != nil || len(res.Failed) != 1 || string(res.Failed[0].Path) != "d/f7" || len(res.Left) != 0 {
		t.Fatalf("%v; failed: %v; left: %v", err, res.Failed, res.Left)
	}
	for n, st := range steps {
		if n == 7 {
			continue
		}
		name := filepath.Join(f.dir, string(st.Path))
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != os.FileMode(st.Mode) || fi.ModTime().UnixNano() != made || f.read(string(st.Path)) != string(contents[n]) {
			t.Errorf("%s has mode %v, time %v, %q", name, fi.Mode(), fi.ModTime(), f.read(string(st.Path)))
		}
	}
	if got := f.read("d/f7"); got != "mine\n" {
		t.Errorf("somebody's file has %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, "d/.cachebro*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	f.srv.fs.prepared.mu.Lock()
	defer f.srv.fs.prepared.mu.Unlock()
	for _, of := range f.srv.fs.prepared.by {
		delete(of.files, "f7")
		if len(of.files) > 0 {
			t.Errorf("the mount still holds %v", of.files)
		}
	}
	if calls := f.rec.take(); !slices.Contains(calls, `closed create d/f99 "content 99\n"`) {
		t.Errorf("recorded: %q", calls)
	}
}

// Only the thread that has prepared a file can make it. If the thread id may belong to several
// threads, the prepared file is not used. If a thread of another user has the same id later, its
// mknod makes an empty file.
func TestPreparedByNobodyElse(t *testing.T) {
	b, err := event.EncodePrepared([]event.PreparedFile{{Name: []byte("a"), Content: []byte("mine")}})
	if err != nil {
		t.Fatal(err)
	}
	caller := func(pid, uid uint32) *fuse.InHeader {
		return &fuse.InHeader{NodeId: 7, Caller: fuse.Caller{Owner: fuse.Owner{Uid: uid}, Pid: pid}}
	}
	var p prepared
	if st := p.put(caller(0, 1000), b); st != fuse.EAGAIN {
		t.Errorf("prepared from another pid namespace: %v", st)
	}
	if st := p.put(caller(5, 1000), b); !st.Ok() {
		t.Fatal(st)
	}
	for _, c := range []*fuse.InHeader{caller(5, 1001), caller(6, 1000), caller(0, 1000)} {
		if _, ok := p.take(c, "a"); ok {
			t.Errorf("pid %d of user %d made it", c.Pid, c.Uid)
		}
	}
	if f, ok := p.take(caller(5, 1000), "a"); !ok || string(f.Content) != "mine" {
		t.Errorf("its own thread gets %q, %v", f.Content, ok)
	}
}
