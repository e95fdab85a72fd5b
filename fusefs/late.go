//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// late are threads whose request was refused because it came late: they had looked up
// a name, and meanwhile its file lost its place. What they would write to that file
// would be lost, because nobody finds it again. So they look the name up once more
// (the kernel does, after ESTALE). A thread whose next file has no name either wants
// this very file: it opens it through /proc/self/fd, or lost the race twice.
type late struct {
	some atomic.Bool // whether at has any
	mu   sync.Mutex  // guards at
	at   map[uint32]time.Time
}

const (
	lateWithin = time.Second
	maxLate    = 1000
)

// sendBack reports whether a thread that wants to write to a file with these
// attributes has to look for it again.
func (l *late) sendBack(sx *sys.Stat, thread uint32) bool {
	named := sx.Nlink > 0 || sx.Mode&unix.S_IFMT != unix.S_IFREG
	if named && !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	t, sent := l.at[thread]
	delete(l.at, thread)
	if !named && (!sent || now.Sub(t) > lateWithin) {
		if l.at == nil || len(l.at) >= maxLate {
			l.at = map[uint32]time.Time{}
		}
		l.at[thread] = now
	}
	_, again := l.at[thread]
	l.some.Store(len(l.at) > 0)
	return again
}
