package survey

import (
	"sync"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// mount is the state of the project's mountd. There is at most one. The zero value means that
// there is none.
type mount struct {
	// mu guards the fields below.
	mu        sync.Mutex
	attached  bool
	attach    wire.Attach
	start     uint64 // start time of mountd, because its pid may be reused
	process   int    // descriptor of that process, valid while attached; < 0 if it cannot be opened
	awayUntil int64  // when the period without a mount before this mount ended; 0 if unknown
	beat      wire.Heartbeat
	missed    bool // since the last scan of all files, files may have changed without going through the mount
}

// begin records an attached mountd. last is the scan that completed for it, nil if none has.
// endAway(false) records that something is mounted, and returns whether nothing was mounted before.
// again reports whether this mountd was attached already. ended reports whether a period without a
// mount has ended. It is false if this mountd directly follows one that died.
func (m *mount) begin(a wire.Attach, last *scanned, endAway func(bool) bool) (again, ended bool) {
	st, err := procfs.ReadStat(a.PID)
	process := -1
	if err == nil {
		process = attribution.OpenProcess(a.PID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	returned := m.attach.Unmounted && !a.Unmounted // the mount had left its mountpoint, and changes there were not reported
	again = m.attached && m.attach.PID == a.PID && m.start == st.Start && !returned
	m.forgetLocked()
	if !again {
		m.missed = last == nil || !last.Whole || last.Missed != a.Missed
	}
	m.missed = m.missed || a.Outside && !a.Watched || again && m.beat.Missed != a.Missed
	m.attached, m.attach = true, a
	m.start, m.process = st.Start, process
	m.beat.Missed = a.Missed
	if !again {
		m.awayUntil = 0
		ended = !a.Unmounted && endAway(false)
		if ended {
			m.awayUntil = time.Now().UnixNano()
		}
		m.beat = wire.Heartbeat{Bypass: a.Bypass}
	}
	return again, ended
}

// identity returns the mountd that is attached.
func (m *mount) identity() (pid int, start uint64, ok bool) {
	if attached, _, _ := m.MountState(); !attached {
		return 0, 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attach.PID, m.start, m.attached
}

// heartbeat handles a heartbeat. known is false if no mount is attached. unmounted is true if the mount
// was unmounted since the last heartbeat.
func (m *mount) heartbeat(b wire.Heartbeat) (known, unmounted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached && m.attach.Unmounted && !b.Unmounted {
		return false, false // it is mounted again, so mountd must attach again
	}
	if m.attached {
		unmounted = b.Unmounted && !m.attach.Unmounted
		m.missed = m.missed || b.Outside && !b.Watched || b.Missed != m.beat.Missed
		m.beat = b
		m.attach.Bypass = b.Bypass
	}
	return m.attached, unmounted
}

// unwatched reports whether files may have changed without mountd reporting it.
func (m *mount) unwatched() bool {
	ok, a, _ := m.MountState()
	m.mu.Lock()
	defer m.mu.Unlock()
	return !ok || a.Outside && !a.Watched || m.missed
}

// Watched reports whether mountd reports changes that bypass the mount as they happen.
func (m *mount) Watched() bool {
	ok, a, _ := m.MountState()
	return ok && a.Watched
}

// behind reports whether one scan of all files is due, because mountd now reports every change but
// may have missed earlier ones.
func (m *mount) behind() bool { return m.Watched() && m.unwatched() }

// scanBegins is called when a scan of every file begins. It returns how often mountd may have
// missed changes so far.
func (m *mount) scanBegins() (missed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missed = m.attach.Outside && !m.attach.Watched
	return m.beat.Missed
}

// end removes the mount if it belongs to the process pid. ours reports whether it was on its
// mountpoint until now.
func (m *mount) end(pid int) (ours bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached && m.attach.PID == pid {
		ours = !m.attach.Unmounted
		m.forgetLocked()
	}
	return ours
}

// MountState returns a copy of the mount's state, and notices a mountd that has died. If the mount was
// unmounted but mountd still serves processes inside the mount, mountd does not count as attached.
func (m *mount) MountState() (attached bool, a wire.Attach, b wire.Heartbeat) {
	m.mu.Lock()
	a, b = m.attach, m.beat
	attached = m.attached && !a.Unmounted
	start, examined := m.start, attached && m.process >= 0
	if examined && attribution.Ended(m.process) {
		m.forgetLocked()
		attached = false
	}
	m.mu.Unlock()
	if attached && !examined && !attribution.Alive(a.PID, start) {
		m.mu.Lock()
		if m.attach.PID == a.PID && m.start == start {
			m.forgetLocked()
		}
		m.mu.Unlock()
		return false, a, b
	}
	return attached, a, b
}

func (m *mount) forgetLocked() {
	if m.attached && m.process >= 0 {
		_ = unix.Close(m.process)
	}
	m.attached, m.process = false, -1
}

func (m *mount) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked()
}

// served reports whether the mount was unmounted but mountd still serves it.
func (m *mount) served() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attached && m.attach.Unmounted
}

// Mounted reports whether something is mounted.
func (m *mount) Mounted() bool {
	ok, _, _ := m.MountState()
	return ok
}

// Trouble says why changes are not saved at present, although something is mounted, or returns "".
func (s *Survey) Trouble() string {
	mounted, _, beat := s.MountState()
	if mounted && beat.Capture.State == "stopped" {
		return "capture stopped: " + beat.Capture.Reason
	}
	ok, reason := s.Ingest.Health()
	if mounted && !ok {
		return "store: " + reason
	}
	return ""
}

// unmountedUntil returns the end of the last period without a mount, 0 if that is not known.
func (m *mount) unmountedUntil() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.attached || m.attach.Unmounted {
		return 0
	}
	return m.awayUntil
}

// reportsSince returns when the attached mountd started, in ns since the epoch. mountd reports
// changes only from then on. ok is false while nothing is mounted.
func (m *mount) reportsSince() (since int64, ok bool) {
	_, start, ok := m.identity()
	if !ok {
		return 0, false
	}
	return attribution.Began(start) - ingest.ClockTick, true
}

// Mountpoint returns where the project is mounted, "" while it is not.
func (m *mount) Mountpoint() string {
	if ok, a, _ := m.MountState(); ok {
		return a.Mountpoint
	}
	return ""
}
