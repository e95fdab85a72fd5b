package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// answerChanges starts a server that answers git's requests for changed paths on the mount; see
// fusefs/changes. If another process starts a daemon, that daemon also connects to this server, and
// mountd then attaches to the daemon without delay. end stops the server.
func (s *session) answerChanges() (end func()) {
	l, err := wire.ListenChanges(s.c.Paths, s.c.Root, s.c.State)
	if err != nil {
		s.logger.Warn("git's requests for changed paths cannot be answered", "error", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wire.ServeChanges(l, wire.Answerers{Changes: s.server.Changes, Summoned: s.link.hurry, Settle: s.edge.settle, Mount: s.mountAgain})
	}()
	return func() { l.Close(); <-done }
}

// mountAgain mounts the file system at its mountpoint again, if it was unmounted there and is still
// served for other users.
func (s *session) mountAgain() error {
	if !s.link.unmounted() {
		return fmt.Errorf("%s is mounted", s.c.Mountpoint)
	}
	if err := s.server.MountAgain(); err != nil {
		return err
	}
	s.logger.Info("mounted again")
	r, ok := ReadRecord(s.c.State)
	if ok && r.PID == os.Getpid() {
		r.Unmounted = false
		r.MountID, r.Since = s.mountID(), time.Now()
		if err := wire.WriteJSON(filepath.Join(s.c.State, recordFile), r); err != nil {
			s.logger.Warn("cannot record the mount", "error", err)
		}
	}
	s.link.remounted()
	s.edge.restart()
	s.link.hurry()
	return nil
}

// mountID returns the id of our mount in our mount namespace, or 0.
func (s *session) mountID() int {
	overlays, err := mounts.Overlays()
	if err != nil {
		return 0
	}
	m, _ := mounts.At(overlays, s.c.Mountpoint)
	return m.ID
}
