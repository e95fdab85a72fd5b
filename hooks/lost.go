package hooks

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"cachebro/store/wire"
)

// An event that did not reach the daemon may have been a compaction, or another text
// of a file that the model was given. What the daemon believes about the session's
// readers is then a guess. So a hook that fails leaves a mark, and the next hook of
// the session that gets through says "lost" first, which begins a new epoch for all
// its readers.

// lostFile is the session's mark; "" where the project has no state directory.
func (c *scene) lostFile() string {
	dir := c.chainDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fileName(c.session)+".lost")
}

func (c *scene) markLost() {
	file := c.lostFile()
	if file == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return
	}
	if f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		_ = f.Close()
	}
}

// tellLost reports whether the daemon knows by now what was lost.
func (c *call) tellLost(ctx context.Context) bool {
	file := c.lostFile()
	if file == "" {
		return true
	}
	if _, err := os.Lstat(file); err != nil {
		return true
	}
	var a wire.SessionAnswer
	if _, err := c.ask(ctx, wire.MSession, wire.SessionEvent{Session: c.session, Event: "lost"}, nil, &a); err != nil {
		return false
	}
	return os.Remove(file) == nil
}

// abandoned leaves the mark for an event that was given up on half-way.
func abandoned(ctx context.Context, env Env, ev event) {
	if handlers[ev.name] == nil || ev.session == "" {
		return
	}
	within(ctx, env.limit(50*time.Millisecond), func(context.Context) bool {
		if root, ok := findRoot(env, ev); ok {
			(&scene{env: env, event: ev, root: root}).markLost()
		}
		return true
	})
}
