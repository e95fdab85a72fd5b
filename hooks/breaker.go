package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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

// dead reports whether the project's mount exists but no process serves it, because mountd and
// every process that could replace it were killed at the same time.
func (c *scene) dead() bool {
	var st syscall.Statfs_t
	return errors.Is(syscall.Statfs(c.root, &st), syscall.ENOTCONN)
}

// isMountpoint reports whether something is mounted on the project's root. mountd may be serving it
// before a new daemon knows of it.
func (c *scene) isMountpoint() bool {
	var root, parent syscall.Stat_t
	err := errors.Join(syscall.Stat(c.root, &root), syscall.Stat(filepath.Dir(c.root), &parent))
	return err != nil || root.Dev != parent.Dev
}

// deadText returns a text that tells the model why every access to the project fails, and how to
// repair the mount.
func (c *call) deadText(ctx context.Context) string {
	text := fmt.Sprintf("The mount on %[1]s is dead because the processes that served it were killed. Every access to it fails with %[2]q. `cachebro mount %[1]s` mounts it again; then cd into it again.",
		clean(c.root), syscall.ENOTCONN.Error())
	c.spend(ctx, "dead-mount", text)
	return text
}
