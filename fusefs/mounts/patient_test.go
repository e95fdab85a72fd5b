package mounts

import (
	"os"
	"slices"
	"testing"
	"time"
)

// A process whose files in /proc never answered once made every mount on the machine hang.
func TestStuckProcess(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	self, parent := os.Getpid(), os.Getppid()
	found := eachWithin(5*time.Millisecond, func(pid int) (int, bool) {
		if pid == parent {
			<-free
		}
		return pid, true
	})
	if !slices.Contains(found, self) || slices.Contains(found, parent) {
		t.Errorf("found %v: want %d and not %d", found, self, parent)
	}
}
