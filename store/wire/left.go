package wire

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Left is the end of a mount at rest: everything that it saw is in the log. mountd leaves it
// in the state directory where no daemon runs, instead of starting one for Detach, and the
// next daemon takes it.
type Left struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // of the process
	Boot  string    `json:"boot"`
	At    time.Time `json:"at"`
}

func leftFile(state string) string { return filepath.Join(state, "left.json") }

// Leave writes l for the next daemon. False: a daemon of root runs, which is to be told.
func Leave(ctx context.Context, p Paths, root string, l Left) (bool, error) {
	state, err := p.State(root)
	if err != nil {
		return false, err
	}
	unlock, err := lockStart(ctx, filepath.Join(state, "start.lock")) // nobody starts one meanwhile
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

// TakeLeft removes it.
func TakeLeft(state string) error { return os.Remove(leftFile(state)) }
