package survey

import (
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"cachebro/store/wire"
)

func beats(m *mount, b wire.Heartbeat) bool {
	known, _ := m.heartbeat(b)
	return known
}

// A mount exists from its attachment until it reports its end or its process has ended.
func TestMountBeginsAndEnds(t *testing.T) {
	var m mount
	defer m.close()
	var away atomic.Bool
	away.Store(true)
	if m.Mounted() || m.Mountpoint() != "" || beats(&m, wire.Heartbeat{}) {
		t.Error("mounted before the first mount")
	}
	a := wire.Attach{PID: os.Getpid(), Mountpoint: "/m", Bypass: wire.Bypass{Outside: true}}
	if again, ended := m.begin(a, nil, away.Swap); again || !ended || !m.Mounted() || m.Mountpoint() != "/m" || m.unmountedUntil() == 0 || away.Load() {
		t.Errorf("again %v, a time without a mount ended %v", again, ended)
	}
	if again, ended := m.begin(a, nil, away.Swap); !again || ended || m.unmountedUntil() == 0 {
		t.Errorf("the same mountd once more: %v, %v", again, ended)
	}
	if !beats(&m, wire.Heartbeat{Head: 5}) {
		t.Error("the heartbeat of a mount that is attached")
	}
	if _, got, beat := m.MountState(); got.Outside || beat.Head != 5 {
		t.Errorf("%+v %+v", got, beat)
	}
	if m.end(1) || !m.end(os.Getpid()) || m.Mounted() || m.end(os.Getpid()) {
		t.Error("only its own process ends a mount, once")
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, ended := m.begin(wire.Attach{PID: child.Process.Pid, Mountpoint: "/m"}, nil, away.Swap); ended || !m.Mounted() || m.unmountedUntil() != 0 {
		t.Error("a mountd that follows another")
	}
	in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if m.Mounted() {
		t.Error("mounted by a process that has ended")
	}
}

// A mount that has left its mountpoint does not count as mounted, although its process continues
// and sends heartbeats, because changes at the mountpoint now bypass it. When its process ends
// later, nothing more is recorded.
func TestMountThatHasLeftIsNone(t *testing.T) {
	var m mount
	defer m.close()
	var away atomic.Bool
	m.begin(wire.Attach{PID: os.Getpid(), Mountpoint: "/m"}, nil, away.Swap)
	if known, left := m.heartbeat(wire.Heartbeat{Bypass: wire.Bypass{Unmounted: true}}); !known || !left {
		t.Errorf("known %v, left %v", known, left)
	}
	if known, left := m.heartbeat(wire.Heartbeat{Bypass: wire.Bypass{Unmounted: true}}); !known || left {
		t.Errorf("told twice: known %v, left %v", known, left)
	}
	_, since := m.reportsSince()
	if m.Mounted() || m.Mountpoint() != "" || m.unmountedUntil() != 0 || since || !m.served() {
		t.Error("mounted, though the mountpoint shows the plain project")
	}
	if m.end(os.Getpid()) || m.served() {
		t.Error("its end is reported as that of a mount in place")
	}
	// A daemon that starts now learns that the mount has left when mountd attaches.
	away.Store(true)
	if _, ended := m.begin(wire.Attach{PID: os.Getpid(), Mountpoint: "/m", Bypass: wire.Bypass{Unmounted: true}}, nil, away.Swap); ended || m.Mounted() || !away.Load() {
		t.Error("a mount that has left ends a time without one")
	}
}

// A scan that an earlier daemon completed for this mountd need not be repeated as long as mountd
// has missed nothing since the scan began.
func TestScanOfAFormerDaemonIsEnough(t *testing.T) {
	var away atomic.Bool
	for _, c := range []struct {
		name   string
		attach wire.Attach
		last   *scanned
		due    bool
	}{
		{"no scan", wire.Attach{}, nil, true},
		{"scanned", wire.Attach{}, &scanned{Whole: true}, false},
		{"scanned and watched", wire.Attach{Bypass: wire.Bypass{Outside: true, Watched: true}}, &scanned{Whole: true}, false},
		{"scanned, but not watched", wire.Attach{Bypass: wire.Bypass{Outside: true}}, &scanned{Whole: true}, true},
		{"changes were missed before the scan", wire.Attach{Bypass: wire.Bypass{Outside: true, Watched: true, Missed: 2}}, &scanned{Whole: true, Missed: 2}, false},
		{"changes were missed after the scan", wire.Attach{Bypass: wire.Bypass{Outside: true, Watched: true, Missed: 3}}, &scanned{Whole: true, Missed: 2}, true},
		{"changes were missed during the scan", wire.Attach{Bypass: wire.Bypass{Outside: true, Watched: true}}, &scanned{}, true},
	} {
		var m mount
		c.attach.PID, c.attach.Mountpoint = os.Getpid(), "/m"
		m.begin(c.attach, c.last, away.Swap)
		if m.unwatched() != c.due {
			t.Errorf("%s: a scan is due: %v", c.name, m.unwatched())
		}
		missed := m.scanBegins()
		if due := c.attach.Outside && !c.attach.Watched; missed != c.attach.Missed || m.unwatched() != due {
			t.Errorf("%s: after a scan: missed %d, due %v", c.name, missed, m.unwatched())
		}
		beats(&m, wire.Heartbeat{Bypass: wire.Bypass{Outside: c.attach.Outside, Watched: true, Missed: c.attach.Missed}})
		if again, _ := m.begin(c.attach, c.last, away.Swap); !again {
			t.Errorf("%s: the same mountd is taken for another", c.name)
		}
		if due := c.attach.Outside && !c.attach.Watched; m.unwatched() != due {
			t.Errorf("%s: attached again: due %v", c.name, m.unwatched())
		}
		m.close()
	}
}
