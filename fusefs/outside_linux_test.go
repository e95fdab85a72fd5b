package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file that was made in the source, or that replaced another file there, used to be taken for one
// that had always existed, so the log did not show the change.
func TestMadeUnderneath(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	f.write("own", "ours")
	f.write("e", "old")
	f.read("e")
	f.rec.take()
	f.under("printf made >new; printf saved >e.tmp; mv e.tmp e; mkdir d; printf listed >d/l")
	for name, want := range map[string]string{"new": "made", "e": "saved", "d/l": "listed"} {
		eventually(t, name+" reads "+want, func() bool {
			got, err := os.ReadFile(filepath.Join(f.dir, name))
			return err == nil && string(got) == want
		})
	}
	f.sh("ls -l d >/dev/null; cat own >/dev/null")
	var told []string
	for _, line := range f.rec.take() {
		if strings.HasPrefix(line, "outside ") {
			told = append(told, strings.Fields(line)[1])
		}
	}
	slices.Sort(told)
	if got := fmt.Sprint(told); got != "[d/l e new]" {
		t.Errorf("reported %s, want each of d/l, e and new once", got)
	}
}

// When the kernel forgets a file, the overlay notes the time. Only a change with a later time was
// made by another process directly in the source.
func TestOutsideWrites(t *testing.T) {
	o := &overlay{}
	o.obs = &recorder{}
	o.outside.Store(true)
	ours := &inode{fs: o, kind: 0o100000, key: key{ino: 1}}
	s := &outsideWrites{start: currentMoment()}
	s.noteForgotten(ours)
	at := currentMoment()
	if s.unknown(ours.key, s.start.wall+1, at) {
		t.Error("a file of ours counts as written outside after the kernel forgot it")
	}
	s.noteForgotten(ours)
	if !s.unknown(ours.key, at.wall+1e9, at) {
		t.Error("a change after the kernel forgot it is not seen")
	}
	if s.unknown(key{ino: 2}, s.start.wall-1, at) {
		t.Error("a file from before the mount counts as written outside")
	}
	for i := range maxForgotten + 1 {
		s.noteForgotten(&inode{fs: o, kind: 0o100000, key: key{ino: uint64(i)}})
	}
	if len(s.forgotten) > maxForgotten || s.unknown(key{ino: 1}, at.wall, currentMoment()) {
		t.Errorf("%d remembered, or what fell out counts as written outside", len(s.forgotten))
	}
}

// After the clock was set back, a change in the source has a time from before the mount, and from
// before the kernel forgot the file. Such a change used to go unnoticed.
func TestOutsideWritesAfterTheClockWasSetBack(t *testing.T) {
	const minute = int64(60e9)
	const year = 365 * 24 * 60 * minute
	o := &overlay{}
	o.obs = &recorder{}
	o.outside.Store(true)
	s := &outsideWrites{start: currentMoment()}
	s.noteForgotten(&inode{fs: o, kind: 0o100000, key: key{ino: 1}})
	at := moment{s.start.wall - year + minute, s.start.steady + minute}
	for ino, changed := range map[uint64]int64{1: at.wall - 1, 2: at.wall - 1, 3: at.wall - minute/2} {
		if !s.unknown(key{ino: ino}, changed, at) {
			t.Errorf("a change of file %d is not seen", ino)
		}
	}
	if s.unknown(key{ino: 4}, at.wall-2*minute, at) {
		t.Error("a file from before the mount counts as written outside")
	}
	// If the clock is set forward, a change that was made before that still counts.
	at = moment{s.start.wall + year, s.start.steady + minute}
	if !s.unknown(key{ino: 5}, s.start.wall+1, at) {
		t.Error("a change before the clock was set forward is not seen")
	}
}
