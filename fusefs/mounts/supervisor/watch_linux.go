package supervisor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// watched is a process that is not our child. fd is a pidfd, because the pid of the process may be
// reused.
type watched struct{ fd int }

func watch(pid int) (*watched, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return &watched{fd}, nil
}

// wait returns when the process has ended. It occupies a thread.
func (w *watched) wait() error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n > 0:
			return nil
		}
	}
}

func (w *watched) signal() { _ = unix.PidfdSendSignal(w.fd, unix.SIGINT, nil, 0) }
func (w *watched) close()  { unix.Close(w.fd) }
