package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A log gets one more line with each version, is emptied and started again, and once gets a line in
// two halves. Blame attributes each line to the version that wrote it.
func TestBlameGrowingLog(t *testing.T) {
	s := fresh(t)
	var text string
	var want []uint64 // the version that wrote each line
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

// Blame does not read every version of a growing file, but answers as if it had. The file grows by
// whole lines, by half a line or by nothing, changes in the middle, becomes shorter or empty, or
// gets an earlier text again. Blame is also asked about past versions.
func TestBlameLooksAhead(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s := fresh(t)
		var texts [][]byte
		var seqs []uint64
		now := []byte("begun\n")
		for i := range 250 {
			switch k := rnd.IntN(100); {
			case k < 2:
				now = nil
			case k < 4 && len(texts) > 0:
				now = texts[rnd.IntN(len(texts))]
			case k < 8:
				now = fmt.Appendf([]byte(fmt.Sprintf("head %d\n", i)), "%s", now)
			case k < 12 && len(now) > 20:
				now = now[:rnd.IntN(len(now))]
			case k < 20:
				now = fmt.Appendf(slices.Clone(now), "half %d ", i)
			default:
				now = slices.Clone(now)
				for range rnd.IntN(3) {
					now = fmt.Appendf(now, "line %d %d\n", i, rnd.Int())
				}
			}
			for _, v := range apply(t, s, file(OpWrite, "a", string(now))) {
				texts, seqs = append(texts, now), append(seqs, v.Seq)
			}
		}
		for _, at := range []int{len(texts) - 1, 0, 1, rnd.IntN(len(texts)), rnd.IntN(len(texts))} {
			var who []int
			var was []byte
			for i, text := range texts[:at+1] {
				who, was = blameStep(who, slices.Clone(was), slices.Clone(text), i), text
			}
			lines, err := s.Blame("a", seqs[at])
			if err != nil || len(lines) != len(who) {
				t.Fatalf("seed %d at %d: %d lines, want %d: %v", seed, at, len(lines), len(who), err)
			}
			got := ""
			for i, l := range lines {
				if got += string(l.Text); l.Seq != seqs[who[i]] {
					t.Errorf("seed %d at %d: line %d is by %d, want %d", seed, at, i+1, l.Seq, seqs[who[i]])
				}
			}
			if got != string(was) {
				t.Errorf("seed %d at %d: the lines are not the text", seed, at)
			}
		}
	}
}
