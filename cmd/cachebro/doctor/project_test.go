package doctor

import (
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// TestBackupFinding: doctor says that a backup program that stays on one file system skips a mounted
// project.
func TestBackupFinding(t *testing.T) {
	says := func(t cli.Target) (all string) {
		for _, f := range captureFindings(wire.Status{}, t) {
			all += f.What + ": " + f.Text + "\n"
		}
		return all
	}
	if got := says(cli.Target{Root: "/p", Point: "/p"}); !strings.Contains(got, "backups: ") || !strings.Contains(got, "name /p as well") {
		t.Errorf("of a mount: %s", got)
	}
	if got := says(cli.Target{Root: "/p"}); strings.Contains(got, "backups") {
		t.Errorf("without a mount: %s", got)
	}
}
