package supervisor

import (
	"cachebro/store/wire"
)

// answerChanges tells git what changed on the mount; see fusefs/changes. A daemon
// that somebody else started calls there too: without that it hears of the mount
// with the next record. The result ends it.
func (s *session) answerChanges() (end func()) {
	l, err := wire.ListenChanges(s.c.Paths, s.c.Root, s.c.State)
	if err != nil {
		s.logger.Warn("git cannot ask what changed", "error", err)
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wire.ServeChanges(l, s.server.Changes, s.link.now, s.edge.settle)
	}()
	return func() { l.Close(); <-done }
}
