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

// signalled calls f on a thread that receives signals all the time. The Go runtime sends such
// signals to threads that work for a long time.
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
	defer close(stop) // deferred, because f may end the test
	f()
}

// A ledger grows, and reports that it can be taken over, even while signals arrive. When a signal
// arrives, poll(2) returns EINTR even if it does not wait. A supervisor that took this for a
// failure once detached a mount that could have continued.
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
		end := time.Now().Add(2 * time.Second) // the signals slow the loop down by an unknown amount
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
