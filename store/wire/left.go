package wire

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Left records the end of a mount all of whose changes are in the log. If no daemon runs,
// mountd writes this record into the state directory for the next daemon, instead of starting
// one only to send it Detach.
type Left struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // start time of the process
	Boot  string    `json:"boot"`
	At    time.Time `json:"at"`
}

func leftFile(state string) string { return filepath.Join(state, "left.json") }

// Leave writes l for the next daemon. If a daemon of root is running, it writes nothing and
// returns false, and the caller has to send Detach.
func Leave(ctx context.Context, p Paths, root string, l Left) (bool, error) {
	state, err := p.State(root)
	if err != nil {
		return false, err
	}
	unlock, err := lockStart(ctx, filepath.Join(state, "start.lock")) // so that nobody starts a daemon meanwhile
	if err != nil {
		return false, err
	}
	defer unlock()
	u, err := connect(ctx, p, root)
	if err == nil {
		return false, u.Close()
	}
	if !errors.Is(err, ErrNoDaemon) {
		return false, err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return false, err
	}
	return true, writeNote(leftFile(state), string(text))
}

// ReadLeft reads what Leave wrote.
func ReadLeft(state string) (l Left, ok bool) {
	text, err := os.ReadFile(leftFile(state))
	return l, err == nil && json.Unmarshal(text, &l) == nil
}

// TakeLeft removes what Leave wrote.
func TakeLeft(state string) error { return os.Remove(leftFile(state)) }
