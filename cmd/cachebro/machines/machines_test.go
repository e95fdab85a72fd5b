package machines

import (
	"testing"

	"cachebro/store/remote"
)

// If two more hosts continue a history, it has versions from three hosts.
func TestWrote(t *testing.T) {
	all := remote.Head{Machine: remote.Machine{Name: "agent3"}, Former: []remote.Former{
		{Machine: remote.Machine{Name: "agent1"}, N: 2, Seq: 10},
		{Machine: remote.Machine{Name: "agent2"}, N: 5, Seq: 12},
	}}.Writers()
	a := History{Name: "agent3", Writers: all}
	for seq, want := range map[uint64]string{1: "agent1", 10: "agent1", 11: "agent2", 12: "agent2", 13: "agent3", 99: "agent3"} {
		if got := a.WriterOf(seq); got != want {
			t.Errorf("#%d is of %s, not %s", seq, got, want)
		}
		for _, name := range []string{"agent1", "agent2", "agent3"} {
			if has := partOf(all, name).Has(seq); has != (name == want) {
				t.Errorf("#%d is of %s, and of %s: %v", seq, want, name, has)
			}
		}
	}
	if partOf(all, "0123456789abcdef") != nil || partOf(all[:1], "agent1") != nil {
		t.Error("an id, or a machine that wrote alone, does not mean the whole history")
	}
	if after, before := partOf(all, "agent2").Between(); after != 10 || before != 13 {
		t.Errorf("agent2 wrote between %d and %d", after, before)
	}
}
