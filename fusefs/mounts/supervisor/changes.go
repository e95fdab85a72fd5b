package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// answerChanges answers git's question what changed on the mount; see fusefs/changes. A
// daemon that another process started calls there too; otherwise it would not hear of the
// mount before the next record. The returned function ends it.
func (s *session) answerChanges() (end func()) {
	l, err := wire.ListenChanges(s.c.Paths, s.c.Root, s.c.State)
	if err != nil {
		s.logger.Warn("git cannot ask what changed", "error", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wire.ServeChanges(l, wire.Answerers{Changes: s.server.Changes, Summoned: s.link.hurry, Settle: s.edge.settle, Mount: s.mountAgain})
	}()
	return func() { l.Close(); <-done }
}

// mountAgain mounts again what was unmounted at its mountpoint and is still served elsewhere.
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
		r.Unmounted, r.MountID, r.Since = false, s.mountID(), time.Now()
		if err := writeJSON(filepath.Join(s.c.State, recordFile), r); err != nil {
			s.logger.Warn("cannot record the mount", "error", err)
		}
	}
	s.link.remounted()
	s.edge.restart()
	s.link.hurry()
	return nil
}

// mountID returns the id of our mount in our mount namespace, 0 if it is not there.
func (s *session) mountID() int {
	overlays, err := mounts.Overlays()
	if err != nil {
		return 0
	}
	m, _ := mounts.At(overlays, s.c.Mountpoint)
	return m.ID
}
