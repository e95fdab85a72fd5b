package mounts

import (
	"fmt"
	"sort"
	"strings"
)

// Proc is a process that uses something in a directory.
type Proc struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Comm  string `json:"comm"`
	How   string `json:"how"` // "working directory", "root", "open directory", "open file", "mapped file", "mount"
	Path  string `json:"path"`
}

// String is for messages: "bash (pid 811, working directory /p/src)".
func (p Proc) String() string {
	return fmt.Sprintf("%s (pid %d, %s %s)", p.Comm, p.PID, p.How, p.Path)
}

// Describe names at most limit processes, one per pid.
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

// Split tells who stands on the source from mounts that lead there.
func Split(outside []Proc) (stand, ways []Proc) {
	for _, p := range outside {
		if p.How == "mount" {
			ways = append(ways, p)
		} else {
			stand = append(stand, p)
		}
	}
	return stand, ways
}

func sortProcs(ps []Proc) {
	sort.Slice(ps, func(i, j int) bool { return ps[i].PID < ps[j].PID })
}
