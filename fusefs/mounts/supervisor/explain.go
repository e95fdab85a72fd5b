package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"
)

// Explain makes an error with a hint out of the last message of the daemon. err contains the end of
// the daemon's log. If the daemon does not answer because a signal stopped it, Explain reports
// that.
func Explain(err error, state string) error {
	if errors.Is(err, wire.ErrTimeout) || errors.Is(err, wire.ErrNoDaemon) {
		if pid := stoppedDaemon(state); pid > 0 {
			return wire.Errorf(wire.ErrTimeout, fmt.Sprint("kill -CONT ", pid), "the store daemon (pid %d) was stopped by a signal and does not answer", pid)
		}
	}
	if err == nil || !errors.Is(err, wire.ErrNoDaemon) {
		return err
	}
	var message, hint string
	for line := range strings.Lines("\n" + strings.ReplaceAll(err.Error(), ": cachebro: ", "\ncachebro: ")) {
		line = strings.TrimSuffix(line, "\n")
		if m, ok := strings.CutPrefix(line, "cachebro: "); ok {
			message, hint = m, ""
		}
		if h, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = h
		}
	}
	if message == "" {
		return err
	}
	sentinel := wire.ErrNoDaemon
	switch {
	case strings.Contains(message, wire.ErrDamaged.Message):
		// The hint does not suggest fsck, because fsck needs a store that can be opened.
		sentinel = wire.ErrDamaged
		store := filepath.Join(state, "store")
		hint = "mv " + store + " " + store + ".damaged   (this starts a new, empty history; the project is not changed)"
	case strings.Contains(message, "no space"):
		sentinel = wire.ErrNoSpace
	}
	return wire.Errorf(sentinel, hint, "the store daemon could not start: %s", message)
}

// stoppedDaemon returns the pid of the process that holds the lock of a state directory, if that
// process is stopped. Otherwise it returns 0.
func stoppedDaemon(state string) int {
	b, err := os.ReadFile(filepath.Join(state, "lock"))
	if err != nil {
		return 0
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil || pid <= 0 {
		return 0
	}
	if st, err := procfs.ReadStat(pid); err != nil || st.State != 'T' {
		return 0
	}
	return pid
}
