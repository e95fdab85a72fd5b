//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// idle waits until the processors have been 90% idle for a fifth of a second. It waits no longer
// than most.
func idle(most time.Duration) {
	const step, steps = 50 * time.Millisecond, 4
	busy, all := ticks()
	for quiet, end := 0, time.Now().Add(most); quiet < steps && time.Now().Before(end); {
		time.Sleep(step)
		b, a := ticks()
		if a == 0 {
			return // the system has no /proc/stat
		}
		if quiet++; (b-busy)*10 > a-all {
			quiet = 0
		}
		busy, all = b, a
	}
}

// ticks returns the clock ticks of all processors since the system was started: the busy ticks, and
// all ticks.
func ticks() (busy, all uint64) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			continue // the first field is a name
		}
		all += n
		if i != 4 && i != 5 { // fields 4 and 5 count idle time and time waiting for a disk
			busy += n
		}
	}
	return busy, all
}
