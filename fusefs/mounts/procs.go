package mounts

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"cachebro/store/leaf/procfs"
)

// Proc is a process that uses something in a directory.
type Proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Comm  string `json:"comm"`
	How   string `json:"how"` // "working directory", "root", "open directory", "open file", "mapped file", "mount"
	Path  string `json:"path"`
	Idle  bool   `json:"idle,omitempty"` // for a mount: no process has anything open through it
}

// String describes p in messages: "bash (pid 811, working directory /p/src)".
func (p Proc) String() string {
	return fmt.Sprintf("%s (pid %d, %s %s)", p.Comm, p.PID, p.How, p.Path)
}

func Describe(procs []Proc, limit int) string {
	var names []string
	for _, p := range procs {
		names = append(names, p.String())
	}
	if len(names) > limit {
		names = append(names[:limit], fmt.Sprintf("and %d more", len(procs)-limit))
	}
	return strings.Join(names, ", ")
}

// Split separates processes that use the source directly from mounts that lead to it.
func Split(outside []Proc) (direct, ways []Proc) {
	return divide(outside, func(p Proc) bool { return p.How != "mount" })
}

// Used splits mounts that bypass the overlay into used and idle ones.
func Used(ways []Proc) (used, idle []Proc) {
	return divide(ways, func(w Proc) bool { return !w.Idle })
}

func divide(all []Proc, first func(Proc) bool) (are, others []Proc) {
	for _, p := range all {
		if first(p) {
			are = append(are, p)
		} else {
			others = append(others, p)
		}
	}
	return are, others
}

func sortProcs(ps []Proc) {
	sort.Slice(ps, func(i, j int) bool { return ps[i].PID < ps[j].PID })
}

// Running reports whether a process with this pid and start time is running. A start of 0 matches
// any start time. A zombie does not count as running.
func Running(pid int, start uint64) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.State != 'Z' && (start == 0 || st.Start == start)
}

// Stopped reports whether a process is stopped by a signal.
func Stopped(pid int) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.State == 'T'
}

// Ours reports whether a process is one of cachebro's own, judged by its program and sub-command.
// Such processes hold the source open on purpose or end soon.
func Ours(pid int) bool {
	args := procfs.Args(pid)
	if len(args) < 2 || filepath.Base(args[0]) != "cachebro" {
		return false
	}
	switch args[1] {
	case "supervise", "mountd", "daemon", "mount", "run", "private", "up", "hook":
		return true
	}
	return false
}

// FindMountd returns the pid of the process that serves mountpoint, or 0.
func FindMountd(mountpoint string) int {
	found := eachProcess(func(pid int) (int, bool) {
		args := procfs.Args(pid)
		if len(args) < 3 || args[1] != "mountd" || !Ours(pid) {
			return 0, false
		}
		for i, a := range args[:len(args)-1] {
			if a == "--mountpoint" && args[i+1] == mountpoint {
				return pid, true
			}
		}
		return 0, false
	})
	if len(found) == 0 {
		return 0
	}
	return found[0]
}
