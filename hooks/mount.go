package hooks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

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
