package spool

import (
	"os"
	"sync"
	"syscall"
)

// notifier calls a function when a file is next written to. The watch is one-shot and is armed
// only by a Reader that has nothing to do, so a busy Writer causes no events and an idle
// Reader does not poll.
type notifier struct {
	f    *os.File // nil if inotify is not available (limits)
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
			// The kind of event does not matter. IN_IGNORED after a one-shot event only makes
			// the Reader check once more.
			if _, err := n.f.Read(buf); err != nil {
				return
			}
			call()
		}
	}()
	return n
}

// arm requests one call when path is written to or, for a directory, gets an entry. It
// reports whether that is possible.
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
