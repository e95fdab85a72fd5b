package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// endingWait bounds the wait for a daemon that is ending, or does not listen yet.
const endingWait = 5 * time.Second

// lockState takes the project's lock, which the kernel releases when the process ends. If the
// holder serves clients, lockState fails at once with wire.ErrLocked and the holder's pid.
// Otherwise the holder is ending or has just started, and lockState waits for it up to endingWait.
// began is when the last holder took the lock, in ns, 0 if there was none.
func lockState(state string, served func() bool) (lock *os.File, began int64, err error) {
	path := filepath.Join(state, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("lock the state directory: %w", err)
	}
	for deadline := time.Now().Add(endingWait); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		pid := holder(f)
		// The socket of a killed daemon may accept connections before its lock is free.
		if time.Now().Before(deadline) && (pid > 0 && dying(pid) || !served()) {
			continue
		}
		f.Close()
		who := "another process"
		if pid > 0 {
			who = fmt.Sprintf("another store daemon (pid %d)", pid)
		}
		return nil, 0, wire.Errorf(wire.ErrLocked, "cachebro status", "%s owns %s", who, state)
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("lock %s: %w", path, err)
	}
	if fi, err := f.Stat(); err == nil && fi.Size() > 0 {
		began = fi.ModTime().UnixNano()
	}
	_ = os.Chtimes(path, time.Time{}, time.Now()) // the mtime says when the lock was taken, even if the disk is too full to write the pid
	if err := f.Truncate(0); err == nil {         // the pid is only informative, so a full disk must not stop the daemon
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, began, nil
}

// holder returns the pid in the lock file, 0 if there is none.
func holder(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// dying reports whether a process has ended, is ending, or has a SIGKILL pending.
func dying(pid int) bool {
	gone := func(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }
	st, err := procfs.ReadStat(pid)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	case err != nil:
		return gone(err)
	case st.State == 'Z', st.State == 'X', st.Flags&procfs.Exiting != 0:
		return true
	}
	killed, err := procfs.KillPending(pid)
	return killed || gone(err)
}
