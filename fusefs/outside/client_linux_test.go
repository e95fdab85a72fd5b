package outside

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTimerSlack: the recorder's threads must have a large timer slack, and the daemons that it
// starts must not.
func TestTimerSlack(t *testing.T) {
	inherited := func() time.Duration {
		out, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n)
	}
	var coarse, usual time.Duration
	_ = WithTimerSlack(recorderSlack, func() error {
		coarse = inherited()
		return WithTimerSlack(UsualSlack, func() error { usual = inherited(); return nil })
	})
	if coarse != recorderSlack || usual != UsualSlack {
		t.Errorf("processes inherit a slack of %v and %v, want %v and %v", coarse, usual, recorderSlack, UsualSlack)
	}
	if after := inherited(); after == recorderSlack {
		t.Error("the thread kept the slack")
	}
}
