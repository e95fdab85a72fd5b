package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cachebro/store/wire"
)

func TestExplain(t *testing.T) {
	raw := wire.Errorf(wire.ErrNoDaemon, "look at /s/daemon.log", "the store daemon could not start: time=x level=ERROR msg=start err=\"…\"\ncachebro: open store /s/store: the store is damaged: manifest has bad magic\nhint: check and repair it: cachebro store fsck")
	err := Explain(raw, "/s")
	if !errors.Is(err, wire.ErrDamaged) || err.Error() != "the store daemon could not start: open store /s/store: the store is damaged: manifest has bad magic" {
		t.Errorf("%v", err)
	}
	if h := wire.Hint(err); !strings.HasPrefix(h, "mv /s/store /s/store.damaged") {
		t.Errorf("hint: %s", h)
	}
	first := wire.Errorf(wire.ErrNoDaemon, "", "the store daemon could not start: cachebro: some reason\nhint: do this")
	if err := Explain(first, "/s"); !strings.HasSuffix(err.Error(), "start: some reason") || wire.Hint(err) != "do this" {
		t.Errorf("%v, hint %s", err, wire.Hint(err))
	}
	other := errors.New("something else")
	if Explain(other, "/s") != other || Explain(nil, "/s") != nil {
		t.Error("other errors must stay as they are")
	}
	silent := wire.Errorf(wire.ErrNoDaemon, "h", "the store daemon (pid 7) does not answer")
	if Explain(silent, "/s") != error(silent) {
		t.Error("without a word of the daemon nothing can be explained")
	}
}

// TestExplainStopped: a signal has stopped the daemon. The message used to say only that the daemon
// does not answer, with the hint to run status, which the user had just done.
func TestExplainStopped(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "lock"), fmt.Appendf(nil, "%d\n", cmd.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	silent := wire.Errorf(wire.ErrTimeout, "cachebro status", "the store daemon did not answer hello in time")
	if Explain(silent, state) != error(silent) {
		t.Error("a daemon that runs is not stopped")
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGCONT) }()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
	err = Explain(silent, state)
	if want := fmt.Sprint("kill -CONT ", cmd.Process.Pid); wire.Hint(err) != want || !errors.Is(err, wire.ErrTimeout) {
		t.Errorf("%v, hint %q, want %q", err, wire.Hint(err), want)
	}
}
