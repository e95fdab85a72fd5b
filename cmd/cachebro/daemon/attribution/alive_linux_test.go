package attribution

import (
	"os/exec"
	"testing"
	"time"

	"cachebro/store/leaf/procfs"
)

// A killed process that its parent has not awaited used to count as alive. If it had been carrying out
// an undo, the next undo did not finish that plan, but made one of its own. Temporary files of the
// first stayed in the project, and a redo left out what the first had not reported.
func TestZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	st, err := procfs.ReadStat(pid)
	if err != nil || !Alive(pid, st.Start) {
		t.Errorf("a running process: %v, alive: %v", err, Alive(pid, st.Start))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); Alive(pid, st.Start); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a killed process counts as alive")
		}
	}
}
