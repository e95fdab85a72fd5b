package mounts

import (
	"time"

	"cachebro/store/leaf/procfs"
)

// A process stuck in the kernel, for example on a hung file system, blocks every reader of its
// /proc directory: a readlink of its cwd never returns. The following limits ensure that one stuck
// process does not prevent all mounts on the machine.
const (
	stuckAfter = 250 * time.Millisecond // a healthy process takes microseconds
	maxStuck   = 8                      // after so many stuck processes, all others are skipped
	maxWaits   = 20                     // how many times to wait for a process that does not look stuck
)

// eachProcess calls look for every process, in one goroutine at a time, and returns the results in
// order. If look does not return for a process, that process is skipped and the goroutine is
// abandoned.
func eachProcess[T any](look func(pid int) (T, bool)) []T { return eachWithin(stuckAfter, look) }

func eachWithin[T any](patience time.Duration, look func(pid int) (T, bool)) []T {
	pids := procfs.All()
	type seen struct {
		value T
		ok    bool
	}
	var found []T
	for stuck := 0; len(pids) > 0 && stuck < maxStuck; stuck++ {
		results := make(chan seen, len(pids)) // closed by the goroutine; has room for all its results
		go func(pids []int) {
			defer close(results)
			for _, pid := range pids {
				v, ok := look(pid)
				results <- seen{v, ok}
			}
		}(pids)
		timer := time.NewTimer(patience)
		waited := 0
		for moving := true; moving && len(pids) > 0; {
			timer.Reset(patience)
			select {
			case r := <-results:
				waited = 0
				pids = pids[1:]
				if r.ok {
					found = append(found, r.value)
				}
			case <-timer.C:
				// The goroutine may only be slow because of the machine's load.
				waited++
				moving = !blocked(pids[0]) && waited < maxWaits
				if !moving {
					pids = pids[1:]
				}
			}
		}
		timer.Stop()
	}
	return found
}

// blocked reports whether a process is in an uninterruptible sleep. It reads stat, the only file in
// /proc whose readers are never blocked.
func blocked(pid int) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.State == 'D'
}
