package hooks

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"cachebro/store/wire"
)

// An event that did not reach the daemon may have been a compaction, or may have given the model
// another text of a file. Then the daemon's record of what the session's readers were shown may be
// wrong. So a hook that fails creates a marker file. The next hook of the session that reaches the
// daemon first sends the event "lost", which begins a new epoch for the session's readers.

// lostFile returns the session's marker file, or "" without a state directory.
func (c *scene) lostFile() string { return c.stateFile(c.session, ".lost") }

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

// tellLost tells the daemon that events were lost, if there is a marker file. It returns false if
// that failed.
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

// abandoned creates the marker file for an event that was not handled in time.
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
