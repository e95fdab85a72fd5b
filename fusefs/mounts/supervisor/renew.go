package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

// Another binary can take over a served mount. The new binary writes its path to a file in the
// state directory and signals mountd to end. The supervisor starts the binary in that file as the
// successor, and is then itself replaced by a supervisor of the new binary.

const (
	exeFile = "serve.exe"
	// renewSignal tells mountd to end without unmounting, so that a successor can take over.
	renewSignal = syscall.SIGUSR1
	renewLimit  = 15 * time.Second
	// drainShort is how long mountd waits for content before it ends.
	drainShort = 2 * time.Second
)

// Renew makes this binary, c.Exe, serve the mount that a Record describes, and returns
// the pid of the new mountd. Programs on the mount notice nothing.
func Renew(ctx context.Context, c Config) (pid int, err error) {
	old, ok := ReadRecord(c.State)
	if !ok || !mounts.Running(old.PID, 0) {
		return 0, wire.Errorf(wire.ErrNotFound, "cachebro mount "+c.Root, "no process serves a mount of %s", c.Root)
	}
	if !old.Replaceable {
		return 0, wire.Errorf(wire.ErrConflict, "cachebro umount "+c.Root+" && cachebro mount "+c.Root,
			"the mount cannot be taken over while it is in use (Linux 6.9 and a mount made by version 0.1.0 or later are needed)")
	}
	name := filepath.Join(c.State, exeFile)
	if err := os.WriteFile(name, []byte(c.Exe+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("write down the path of the new binary: %w", err)
	}
	defer remove(name)
	if err := syscall.Kill(old.PID, renewSignal); err != nil {
		return 0, fmt.Errorf("ask mountd (pid %d) to end: %w", old.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	for {
		now, ok := ReadRecord(c.State)
		if ok && now.PID != old.PID {
			// The new mountd starts a supervisor with its own binary.
			if now.Supervisor == old.Supervisor {
				if err := syscall.Kill(old.Supervisor, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					return now.PID, fmt.Errorf("end the old supervisor: %w", err)
				}
			}
			return now.PID, nil
		}
		if !loop.Pause(ctx, 10*time.Millisecond) {
			return 0, fmt.Errorf("no successor of mountd (pid %d) has started: %w", old.PID, ctx.Err())
		}
	}
}

// exe returns the binary for the next mountd: the one whose path Renew wrote, or else our own.
func (r *runner) exe() string {
	b, err := os.ReadFile(filepath.Join(r.c.State, exeFile))
	if name := strings.TrimSpace(string(b)); err == nil && filepath.IsAbs(name) {
		return name
	}
	return r.c.Exe
}

// drain waits at most drainShort for content to reach the spool. The remaining content is still in
// its files, where the successor finds it.
func (s *session) drain() {
	for end := time.Now().Add(drainShort); s.capture.Stats().Queue > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
