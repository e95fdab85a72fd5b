package spool

import (
	"os"
	"sync"
	"syscall"
)

// notifier calls a function at the next write to a file. The watch is one-shot, and only an idle
// Reader sets it. So a busy Writer causes no events, and an idle Reader does not poll.
type notifier struct {
	f    *os.File // nil if the limits on inotify do not allow it
	done sync.WaitGroup
}

func newNotifier(call func()) *notifier {
	n := &notifier{}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return n
	}
	n.f = os.NewFile(uintptr(fd), "inotify")
	n.done.Add(1)
	go func() {
		defer n.done.Done()
		buf := make([]byte, 4096)
		for {
			// Any event counts. The IN_IGNORED after a one-shot event only makes the Reader check
			// once more.
			if _, err := n.f.Read(buf); err != nil {
				return
			}
			call()
		}
	}()
	return n
}

// arm requests one call when path is written to or, for a directory, gets an entry. It returns
// false if that is impossible.
func (n *notifier) arm(path string) bool {
	if n.f == nil {
		return false
	}
	raw, err := n.f.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	_ = raw.Control(func(fd uintptr) {
		_, err := syscall.InotifyAddWatch(int(fd), path,
			syscall.IN_MODIFY|syscall.IN_CREATE|syscall.IN_MOVED_TO|syscall.IN_ONESHOT)
		ok = err == nil
	})
	return ok
}

func (n *notifier) close() {
	if n.f != nil {
		n.f.Close()
		n.done.Wait()
	}
}
