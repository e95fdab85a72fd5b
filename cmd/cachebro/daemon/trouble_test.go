package daemon

import (
	"os"
	"testing"

	"cachebro/store/wire"
)

// The answer to a prompt says that nothing is saved any more, or once that the mount is gone. A
// person without a status line used to learn of neither.
func TestPromptsTellOfTrouble(t *testing.T) {
	p := newProject(t)
	p.start()
	mountd, _ := p.attach()
	c := p.dial("hook")
	prompt := func(n string) wire.SessionAnswer {
		t.Helper()
		return ask[wire.SessionAnswer](p, c, wire.MSession, wire.SessionEvent{Session: "s", Event: "prompt", Prompt: n, Client: "claude"})
	}
	if a := prompt("p1"); !a.Mounted || a.MountEnded || a.Trouble != "" {
		t.Errorf("mounted: %+v", a)
	}
	ask[wire.HeartbeatAnswer](p, mountd, wire.MHeartbeat, wire.Heartbeat{Capture: wire.CaptureState{State: "stopped", Reason: "the disk is full"}})
	if a := prompt("p2"); a.Trouble != "capture stopped: the disk is full" {
		t.Errorf("stopped: %+v", a)
	}
	ask[wire.Empty](p, mountd, wire.MDetach, wire.Detach{PID: os.Getpid()})
	if a := prompt("p3"); a.Mounted || !a.MountEnded || a.Trouble != "" {
		t.Errorf("gone: %+v", a)
	}
	if a := prompt("p4"); a.MountEnded {
		t.Errorf("it was told twice: %+v", a)
	}
}
