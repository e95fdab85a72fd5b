//go:build linux || darwin

package fusefs

import (
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// late remembers threads that were sent back because they came late: they had looked up a
// name, and meanwhile its file lost that name. What they wrote to that file would be
// lost, because nobody finds it again. So they have to look the name up once more (the
// kernel does so after ESTALE). If the next file of such a thread has no name either, the
// thread wants this very file, through /proc/self/fd, or has lost the race twice; it is
// let through.
type late struct {
	some atomic.Bool // whether at has any entries
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
