package store

import (
	"fmt"
	"testing"
)

// A log that grows by a line with each version, is begun anew, and once is written in
// two halves of a line: each line is by the version that wrote it.
func TestBlameGrowingLog(t *testing.T) {
	s := fresh(t)
	var text string
	var want []uint64 // of each line
	write := func(now string) uint64 {
		t.Helper()
		text = now
		vs := apply(t, s, file(OpWrite, "app.log", now))
		return vs[0].Seq
	}
	check := func(when string) {
		t.Helper()
		lines, err := s.Blame("app.log", 0)
		if err != nil || len(lines) != len(want) {
			t.Fatalf("%s: %d lines, want %d: %v", when, len(lines), len(want), err)
		}
		got := ""
		for i, l := range lines {
			if got += string(l.Text); l.Seq != want[i] {
				t.Errorf("%s: line %d is by %d, want %d", when, i+1, l.Seq, want[i])
			}
		}
		if got != text {
			t.Errorf("%s: the lines are not the text", when)
		}
	}
	for i := range 50 {
		want = append(want, write(text+fmt.Sprintf("request %d\n", i)))
	}
	check("grown")
	seq := write("begun anew\nsecond")
	want = []uint64{seq, seq}
	check("anew")
	want[1] = write(text + " half\n")
	check("the other half")
	want = append([]uint64{write("before all\n" + text)}, want...)
	check("at its head")
	seq = write(text + "x\ny\n")
	want = append(want, seq, seq)
	check("two lines more")
}
