package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Request handlers that wait for each other all finish, although usually one thread takes all
// requests. This also holds for the first requests after a pause.
func TestHandlersThatWaitForEachOther(t *testing.T) {
	f := mountTest(t, nil)
	const writers = 8
	for i := range writers {
		f.run("create", fmt.Sprint(i), "old")
	}
	for round := range 3 {
		eventually(t, "a rest", f.srv.dev.idle.Load)
		var met sync.WaitGroup
		met.Add(writers)
		all, late := make(chan struct{}), make(chan string, writers)
		go func() { met.Wait(); close(all) }()
		f.rec.mu.Lock()
		f.rec.before = func(c Change) {
			met.Done()
			select {
			case <-all:
			case <-time.After(20 * time.Second):
				late <- c.File.Path()
			}
		}
		f.rec.mu.Unlock()
		var cmds []*exec.Cmd
		for i := range writers {
			cmd := helperCmd("append", filepath.Join(f.dir, fmt.Sprint(i)), "x")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, cmd)
		}
		for _, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		select {
		case p := <-late:
			t.Fatalf("round %d: %s waited for the others, %d at least", round, p, len(late)+1)
		default:
		}
		f.rec.mu.Lock()
		f.rec.before = nil
		f.rec.mu.Unlock()
	}
}

// Requests count as a crowd if requests of two tasks wait in the queue. A crowd ends after some
// time. Three cases are no crowd: a request that the kernel delivers before a waiting FORGET, a
// RELEASE with the next request behind it, and requests of a single task.
func TestCrowd(t *testing.T) {
	d := &device{fd: queueOf(t, 1), more: make(chan struct{}, 100), woken: make(chan struct{}, 1)}
	d.taken.Store(1000)
	task := uint32(1)
	take := func(op uint32, ready int32) {
		d.taken.Add(1)
		d.requestTaken(op, task, ready)
	}
	turns := func(op uint32, ready int32) {
		task = 3 - task
		take(op, ready)
	}
	const opLookup = 1
	take(opForget, 0)
	take(opLookup, 0)
	for range 100 {
		take(opLookup, 0)
	}
	if len(d.more) != 0 || !d.enough(2) || d.enough(1) {
		t.Errorf("one task is a crowd: %d spawned", len(d.more))
	}
	for i := range 100 {
		take(opForget, 0)
		for range i % (forgetTurn + 1) {
			turns(opLookup, 0)
		}
		turns(opRelease, 0)
	}
	if len(d.more) != 0 || !d.enough(2) {
		t.Errorf("forgotten inodes and closed files are a crowd: %d spawned", len(d.more))
	}
	take(opForget, 0)
	for range forgetTurn + 1 {
		turns(opLookup, 0)
	}
	if len(d.more) != 1 || d.enough(2) || !d.enough(3) {
		t.Errorf("no crowd: %d spawned", len(d.more))
	}
	for range crowdLasts + 1 {
		turns(opLookup, 1)
	}
	if len(d.more) != 1 || !d.enough(2) {
		t.Errorf("still a crowd: %d spawned", len(d.more))
	}
	// Read-ahead of one task, and requests that the kernel makes by itself, also count as a crowd.
	take(opRead, 0)
	task = 0
	take(opLookup, 0)
	if len(d.more) != 3 {
		t.Errorf("reading ahead and writing back are no crowd: %d spawned", len(d.more))
	}
	take(opForget, 0)
	take(opFsync, 0)
	if len(d.more) != 4 {
		t.Errorf("nobody waits while a disk does: %d spawned", len(d.more))
	}
}

// queueOf returns a descriptor that always has n bytes to read.
func queueOf(t *testing.T, n int) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	return int(r.Fd())
}
