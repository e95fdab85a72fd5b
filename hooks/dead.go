package hooks

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// dead reports whether the project's mount is there and nobody serves it:
// mountd and all who could have replaced it were killed at once.
func (c *scene) dead() bool {
	var st syscall.Statfs_t
	return errors.Is(syscall.Statfs(c.root, &st), syscall.ENOTCONN)
}

// deadText tells the model why everything fails, and what mends it.
func (c *call) deadText(ctx context.Context) string {
	text := fmt.Sprintf("The mount on %[1]s is dead: the processes that served it were killed, and whatever touches it fails with %[2]q. `cachebro mount %[1]s` mounts it again; then enter it anew with cd.",
		clean(c.root), syscall.ENOTCONN.Error())
	c.spend(ctx, "dead-mount", text)
	return text
}
