package capture

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// canceller ends waits when who waits is being killed. The kernel reports
// every signal that arrives during a request as an interruption, harmless ones
// too (a Go program sends itself dozens a second to switch goroutines), and the
// operation is carried out all the same; giving up for those would lose
// content without need.
type canceller struct {
	ch  <-chan struct{}
	tid uint32 // of the request, 0 unknown
}

// final is called when ch has been closed. It reports whether to give up;
// otherwise the wait goes on without ch.
func (k *canceller) final() bool {
	if k.tid != 0 && !dying(k.tid) {
		k.ch = nil
		return false
	}
	return true
}

// dying reports whether SIGKILL, to which the kernel turns every fatal signal,
// is pending for a thread; also when the thread is not to be found.
func dying(tid uint32) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return true
	}
	defer f.Close()
	const kill = 1 << (9 - 1)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, mask, _ := strings.Cut(lines.Text(), ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err != nil || bits&kill != 0 {
			return true
		}
	}
	return false
}
