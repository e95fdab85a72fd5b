package wire

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// MountEnd records the end of a mount whose changes are all in the log. If no daemon runs, mountd
// writes it into the state directory for the next daemon. This saves starting a daemon only to send
// Detach.
type MountEnd struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // start time of the process
	Boot  string    `json:"boot"`
	At    time.Time `json:"at"`
}

func mountEndFile(state string) string { return filepath.Join(state, "left.json") }

// WriteMountEnd writes e for the next daemon. If a daemon of root is running, it writes nothing and
// returns false. The caller then has to send Detach.
func WriteMountEnd(ctx context.Context, p Paths, root string, e MountEnd) (bool, error) {
	state, err := p.State(root)
	if err != nil {
		return false, err
	}
	unlock, err := lockStart(ctx, filepath.Join(state, "start.lock")) // no other process can start a daemon meanwhile
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
	return true, WriteJSON(mountEndFile(state), e)
}

// ReadMountEnd reads what WriteMountEnd wrote.
func ReadMountEnd(state string) (e MountEnd, ok bool) {
	return e, ReadJSON(mountEndFile(state), &e) == nil
}

// RemoveMountEnd removes what WriteMountEnd wrote.
func RemoveMountEnd(state string) error { return os.Remove(mountEndFile(state)) }
