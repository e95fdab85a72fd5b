package daemon

import (
	"context"
	"testing"
	"time"

	"cachebro/store/wire"
)

// A mounted project's daemon ends when there is nothing to do, even if clients are connected. The
// next daemon relies on the scan that the last one completed for the same mountd.
func TestIdleDaemonEndsWhileMounted(t *testing.T) {
	p := newProject(t)
	p.write("a.txt", "1\n")
	p.opt.IdleExit = 200 * time.Millisecond
	ended := func() {
		t.Helper()
		select {
		case err := <-p.ended:
			p.stop = nil
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it stays")
		}
	}
	p.start()
	c, a := p.attach()
	for deadline := time.Now().Add(time.Minute); a.BaselineStart.IsZero(); {
		if time.Now().After(deadline) {
			t.Fatal("no scan")
		}
		time.Sleep(10 * time.Millisecond)
		if _, err := c.Call(context.Background(), wire.MHeartbeat, wire.Heartbeat{}, nil, &a); err != nil {
			t.Fatal(err)
		}
	}
	ended()

	p.write("b.txt", "bypassing the mount, where mountd would have reported it\n")
	p.opt.IdleExit = -1
	p.start()
	c, again := p.attach()
	if !again.BaselineStart.Equal(a.BaselineStart) {
		t.Errorf("the scan of %v is not relied on: %v", a.BaselineStart, again.BaselineStart)
	}
	st := ask[wire.Status](p, c, wire.MStatus, wire.Empty{})
	if !st.Baseline.Done || st.Baseline.Files != 1 || st.Store.Versions != 1 {
		t.Errorf("after a second look: %+v, %d versions", st.Baseline, st.Store.Versions)
	}
	p.end()

	// If a mount ends while no daemon runs, the next daemon learns of it when it starts.
	p.start()
	c = p.dial("mountd")
	if _, err := c.Call(context.Background(), wire.MDetach, wire.Detach{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // longer than a tick of the kernel's clock for files
	p.write("c.txt", "made while nothing is mounted\n")
	if log := p.log(c, wire.LogQuery{}); len(log) != 1 || string(log[0].Path) != "c.txt" || log[0].Op != "create" {
		t.Errorf("after the mount: %+v", log)
	}
}

// A saved output stays available as long as a model may ask for it.
func TestKeptOutputKeepsTheDaemon(t *testing.T) {
	p := newProject(t)
	p.opt.IdleExit = 50 * time.Millisecond
	p.start()
	c := p.dial("hook")
	if _, err := c.Call(context.Background(), wire.MOutput, wire.OutputRequest{Session: "s", ID: "o1"}, []byte("ok a\nok b\n"), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
		p.stop = nil
		t.Fatal("it ends while an output is kept")
	case <-time.After(time.Second): // twenty times as long as it would stay otherwise
	}
	body, err := c.Call(context.Background(), wire.MOutput, wire.OutputRequest{ID: "o1"}, nil, nil)
	if err != nil || string(body) != "ok a\nok b\n" {
		t.Errorf("%q, %v", body, err)
	}
}
