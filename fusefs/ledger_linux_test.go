//go:build !portable

package fusefs

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// signalled calls f on a thread that gets signals all the time, as the Go runtime sends them to
// threads that work for long.
func signalled(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid, stop := unix.Getpid(), unix.Gettid(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(pid, tid, unix.SIGURG)
			}
		}
	}()
	defer wg.Wait()
	defer close(stop) // also when f ends the test
	f()
}

// A ledger grows, and counts as one that can be taken over, although signals arrive. poll(2)
// answers them with EINTR even if it does not wait. A supervisor that took this for a failure
// detached a mount that could have continued.
func TestTakeOverUnderSignals(t *testing.T) {
	f, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := newLedger(f)
	if err != nil {
		t.Fatal(err)
	}
	defer l.unmap()
	l.head.initLen = 1
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	signalled(func() {
		end := time.Now().Add(2 * time.Second) // the signals make it slow by chance
		for i := 0; i < 30000 && time.Now().Before(end); i++ {
			if l.alloc(1) == 0 {
				t.Fatalf("no room for slot %d in piece %d", i, l.head.pieces.Load())
			}
			if err := CanTakeOver(f, r); err != nil {
				t.Fatalf("after %d: %v", i, err)
			}
		}
	})
	w.Close()
	if err := CanTakeOver(f, r); err == nil {
		t.Error("a connection that has ended can be taken over")
	}
}
