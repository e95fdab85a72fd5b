package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// EndDaemon asks the store daemon of a root to end, if there is one, and waits.
func (e *Env) EndDaemon(ctx context.Context, root string) {
	c, err := wire.Dial(ctx, e.Paths(), wire.Hello{Version: Version, Client: "cli", Root: root}, wire.Timeouts{Connect: time.Second, Answer: 5 * time.Second})
	if c == nil {
		return
	}
	defer c.Close()
	pid := c.Hello().PID
	if err == nil || errors.Is(err, wire.ErrVersion) {
		_, _ = c.Call(ctx, wire.MShutdown, wire.Empty{}, nil, nil)
	}
	for start := time.Now(); pid > 1 && mounts.Running(pid, 0) && time.Since(start) < 10*time.Second && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
}

// LockState takes the lock of a state directory. It fails if a running daemon holds the lock.
// flag is os.O_CREATE or 0. With 0, a directory without a lock file needs no lock.
func LockState(state string, flag int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(state, "lock"), os.O_RDWR|flag, 0o600)
	if flag == 0 && errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, Hintf("cachebro status", "the history in %s is in use", Quote(state))
	}
	return func() { f.Close() }, nil
}
