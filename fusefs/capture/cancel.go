package capture

import "cachebro/store/leaf/procfs"

// canceller ends a wait when the waiting process is being killed. The kernel reports every signal
// during a request as an interruption, also harmless ones: a Go program sends itself dozens a
// second to switch goroutines. A harmless signal does not stop the operation, so giving up would
// lose content.
type canceller struct {
	ch  <-chan struct{}
	tid uint32 // thread of the request; 0 if unknown
}

// final is called when ch is closed. It reports whether to give up. Otherwise the wait continues
// without ch.
func (k *canceller) final() bool {
	if k.tid != 0 && !dying(k.tid) {
		k.ch = nil
		return false
	}
	return true
}

// dying reports whether a thread is being killed or is gone.
func dying(tid uint32) bool {
	killed, err := procfs.KillPending(int(tid))
	return killed || err != nil
}
