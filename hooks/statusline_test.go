package hooks

import (
	"strings"
	"testing"

	"cachebro/store/wire"
)

func TestStatusText(t *testing.T) {
	healthy := wire.Status{Mounted: true, Store: wire.StoreState{Healthy: true}}
	stopped := healthy
	stopped.Capture = wire.CaptureState{State: "stopped", Reason: "no space\nleft"}
	busy := healthy
	busy.Baseline = wire.Baseline{Running: true, Files: 10, Total: 500}
	saved := wire.Metrics{Saved: 65450, Full: 152920, Percent: 42.8}
	golden(t, "statusline.golden", strings.Join([]string{
		statusText(saved, healthy, "main", ""),
		statusText(wire.Metrics{}, healthy, "", ""),
		statusText(wire.Metrics{}, wire.Status{Store: wire.StoreState{Healthy: true}}, "main", ""),
		statusText(saved, stopped, "main", ""),
		statusText(wire.Metrics{}, busy, "main", ""),
		statusText(wire.Metrics{}, wire.Status{}, "", "not running"),
	}, "\n")+"\n")
}

func TestRunStatusLine(t *testing.T) {
	p := newProject(t)
	line := func() string {
		t.Helper()
		var out strings.Builder
		e := p.env(`{"session_id":"s1","cwd":"/","workspace":{"project_dir":"`+p.root+`"}}`, &out)
		if code := RunStatusLine(t.Context(), e); code != 0 {
			t.Errorf("status %d", code)
		}
		return out.String()
	}
	p.envs = nil
	if got := line(); got != " cachebro  not running\n" {
		t.Errorf("without a daemon: %q", got)
	}
	p.serve(answers{
		wire.MStatus: func(*wire.Request) (any, []byte, error) {
			return wire.Status{Mounted: true, Store: wire.StoreState{Healthy: true}}, nil, nil
		},
		wire.MMetrics: func(*wire.Request) (any, []byte, error) {
			return wire.Metrics{Saved: 5, Full: 10, Percent: 50}, nil, nil
		},
		wire.MRecovery: func(*wire.Request) (any, []byte, error) { return wire.Recovery{Branch: "main"}, nil, nil },
	})
	if got := line(); got != " cachebro  ~5 tokens saved (50.0%) · main\n" {
		t.Errorf("got %q", got)
	}
}
