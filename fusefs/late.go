//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// sentBack remembers threads whose open was refused because they came too late: they had looked up
// a name, and before they opened the file, it lost that name. Data that they wrote to that file
// would be lost, because no name leads to it any more. So they have to look the name up once more
// (the kernel does so after ESTALE). If the next file of such a thread has no name either, the
// thread is let through: it wants this very file, through /proc/self/fd, or has lost the race
// twice.
type sentBack struct {
	any   atomic.Bool // times is not empty
	mu    sync.Mutex  // guards times
	times map[uint32]time.Time
}

const (
	lateWithin = time.Second
	maxLate    = 1000
)

// sendBack reports whether a thread that wants to write to a file with these
// attributes has to look for it again.
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
