//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// sentBack records threads whose open was refused because the file had lost its name since the
// thread looked it up. Data written to such a file would be lost. So the open fails with ESTALE,
// and the kernel looks the name up again. If the thread's next open also finds a file without a
// name, it succeeds: the thread either wants exactly this file, through /proc/self/fd, or lost the
// race twice.
type sentBack struct {
	any   atomic.Bool // times is not empty
	mu    sync.Mutex  // guards times
	times map[uint32]time.Time
}

const (
	lateWithin = time.Second
	maxLate    = 1000
)

// sendBack reports whether opening the file sx for writing must fail with ESTALE, so that the
// thread looks the name up again.
func (l *sentBack) sendBack(sx *sys.Stat, thread uint32) bool {
	named := sx.Nlink > 0 || sx.Mode&unix.S_IFMT != unix.S_IFREG
	if named && !l.any.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	t, sent := l.times[thread]
	delete(l.times, thread)
	if !named && (!sent || now.Sub(t) > lateWithin) {
		if l.times == nil || len(l.times) >= maxLate {
			l.times = map[uint32]time.Time{}
		}
		l.times[thread] = now
	}
	_, again := l.times[thread]
	l.any.Store(len(l.times) > 0)
	return again
}
