//go:build linux && (amd64 || arm64)

package notifier

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAwaitFails: await reports that the listener cannot be watched. It used to wait forever, and
// with it every call of the command.
func TestAwaitFails(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	a := arrivalsOf(pipe[0], -1)
	if a == nil {
		t.Fatal("the poller cannot be used")
	}
	defer a.Close()
	if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_DEL, pipe[0], nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.await() }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("await reported no error")
		}
	case <-time.After(10 * time.Second):
		t.Error("await waits although the listener is not watched")
	}
}
