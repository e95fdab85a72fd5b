package machines

import (
	"testing"

	"cachebro/store/remote"
)

// A history that was handed over twice has versions of three hosts.
func TestWrote(t *testing.T) {
	a := Asked{Name: "agent3", Former: []remote.Former{
		{Machine: remote.Machine{Name: "agent1"}, N: 2, Seq: 10},
		{Machine: remote.Machine{Name: "agent2"}, N: 5, Seq: 12},
	}}
	for seq, want := range map[uint64]string{1: "agent1", 10: "agent1", 11: "agent2", 12: "agent2", 13: "agent3", 99: "agent3"} {
		if got := a.Wrote(seq); got != want {
			t.Errorf("#%d is of %s, not %s", seq, got, want)
		}
	}
}
