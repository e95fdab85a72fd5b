//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// sentBack records threads whose open was refused because it was too late: the thread had looked up
// a name, but the file lost that name before it was opened. Data written to that file would be lost,
// because no name leads to it any more. So the open fails with ESTALE, after which the kernel looks
// the name up again. If the file that such a thread opens next has no name either, the open
// succeeds: either the thread wants exactly this file, through /proc/self/fd, or it has lost the
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

// sendBack reports whether the open of a file with these attributes for writing must fail with
// ESTALE, so that the thread looks the name up again.
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
