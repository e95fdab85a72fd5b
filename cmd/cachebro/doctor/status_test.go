package doctor

import (
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// Status shows the size of the spool with the limit above which writers wait.
func TestStatusShowsTheSpoolsLimit(t *testing.T) {
	var st wire.Status
	st.Capture = wire.CaptureState{Spooled: 40 << 20, MaxSpool: 512 << 20}
	if got := captureLine(cli.Paint{}, st); !strings.Contains(got, "in the spool of 512") || strings.Contains(got, "destroy") {
		t.Error(got)
	}
	st.Capture.Spooled = 600 << 20
	if got := captureLine(cli.Paint{}, st); !strings.Contains(got, "a process that would destroy one waits") {
		t.Error(got)
	}
	st.Capture.MaxSpool = 0 // reported by an older mountd
	if got := captureLine(cli.Paint{}, st); strings.Contains(got, " of ") {
		t.Error(got)
	}
}
