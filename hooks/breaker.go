package hooks

import (
	"os"
	"path/filepath"
	"time"

	"cachebro/store/wire"
)

// breakerFor is how long hooks leave a daemon alone after it did not answer in time.
const breakerFor = 30 * time.Second

// breaker is a circuit breaker for the hooks' requests to the daemon. It is a marker file, whose
// mtime is the time of the last timeout.
type breaker struct {
	file string
	now  func() time.Time
}

// breakerFile returns the path of the marker file. It is next to the socket, usually on a tmpfs, so
// that checking it needs no disk. The directory exists whenever a daemon runs.
func breakerFile(p wire.Paths, root string) string {
	s := p.Sockets(root)
	if len(s) == 0 {
		return ""
	}
	return filepath.Join(filepath.Dir(s[0]), wire.Key(root)+".hooks-off")
}

// open reports whether hooks must not connect now.
func (b breaker) open() bool {
	fi, err := os.Lstat(b.file)
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	age := b.now().Sub(fi.ModTime())
	return age >= 0 && age < breakerFor // a marker from the future (clock set back) does not count
}

// trip records a timeout.
func (b breaker) trip() {
	if b.file == "" {
		return
	}
	f, err := os.OpenFile(b.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_ = f.Close()
	now := b.now()
	_ = os.Chtimes(b.file, now, now)
}
