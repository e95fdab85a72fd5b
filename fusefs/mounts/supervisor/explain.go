package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// Explain makes an error with a hint out of the last message of the daemon. err contains the end of
// the daemon's log. If the daemon does not answer because a signal stopped it, Explain reports
// that.
func Explain(err error, state string) error {
	if errors.Is(err, wire.ErrTimeout) || errors.Is(err, wire.ErrNoDaemon) {
		if pid := stoppedDaemon(state); pid > 0 {
			return errStopped("the store daemon", pid)
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

// StoppedMount returns an error if the mount of a state directory does not answer because a signal
// stopped its mountd. A program that uses such a mount waits until mountd continues, and most signals
// do not end it. StoppedMount itself waits at most hungAfter.
func StoppedMount(state string) error {
	r, ok := ReadRecord(state)
	if !ok || !mounts.Stopped(r.PID) || !errors.Is(mounts.Answers(r.Mountpoint, hungAfter), mounts.ErrHung) {
		return nil
	}
	return errStopped("the process that serves the mount on "+r.Mountpoint, r.PID)
}

// hungAfter is how long a mount whose mountd is stopped may take to answer. It answers at once if
// it was aborted or unmounted.
const hungAfter = 300 * time.Millisecond

func errStopped(process string, pid int) error {
	return wire.Errorf(wire.ErrTimeout, fmt.Sprint("kill -CONT ", pid), "%s (pid %d) was stopped by a signal and does not answer", process, pid)
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
	if !mounts.Stopped(pid) {
		return 0
	}
	return pid
}
