package mcp

import (
	"fmt"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// TestStopped: while a signal has stopped mountd, a call must not touch the project, because it would
// wait in the kernel and could not be cancelled.
func TestStopped(t *testing.T) {
	p := connect(t, Options{Root: project(t, files{"a.txt": "text\n"}), Stopped: func() error {
		return wire.Errorf(wire.ErrTimeout, "kill -CONT 7", "mountd was stopped")
	}})
	for name, args := range map[string]map[string]any{"read_file": {"path": "a.txt"}, "undo": {}} {
		r := p.tool(name, args)
		if text := fmt.Sprint(r.Content); !r.IsError || !strings.Contains(text, "mountd was stopped\nhint: kill -CONT 7") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
