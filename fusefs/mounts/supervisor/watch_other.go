//go:build !linux

package supervisor

import (
	"os"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
)

// watched is a process that is not our child. This system has no pidfd, so the pid is checked twice
// a second.
type watched struct{ pid int }

func watch(pid int) (*watched, error) {
	if !mounts.Running(pid, 0) {
		return nil, os.ErrProcessDone
	}
	return &watched{pid}, nil
}

func (w *watched) wait() error {
	for mounts.Running(w.pid, 0) {
		time.Sleep(500 * time.Millisecond)
	}
	return nil
}

func (w *watched) signal() { _ = syscall.Kill(w.pid, syscall.SIGINT) }
func (w *watched) close()  {}
