package capture

import "cachebro/store/leaf/procfs"

// canceller ends a wait when the waiting process is being killed. The kernel reports every signal
// that arrives during a request as an interruption, including harmless ones (a Go program sends
// itself dozens a second to switch goroutines), and the operation is carried out all the same.
// Giving up because of a harmless signal would lose content without need.
type canceller struct {
	ch  <-chan struct{}
	tid uint32 // of the request, 0 unknown
}

// final is called when ch has been closed. It reports whether to give up;
// otherwise the wait goes on without ch.
func (k *canceller) final() bool {
	if k.tid != 0 && !dying(k.tid) {
		k.ch = nil
		return false
	}
	return true
}

// dying reports whether a thread is being killed or does not exist any more.
func dying(tid uint32) bool {
	killed, err := procfs.KillPending(int(tid))
	return killed || err != nil
}
