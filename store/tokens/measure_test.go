package tokens

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A sum that is updated for a change equals the sum of the changed text, even if the change
// separates or joins pieces.
func TestChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	bits := []string{"word", "Word", "HTTPServer", " ", "  ", "\t", "\n", "\r\n", "\n\n\n", "      ", "12345", "()", "//", "====", "é", "漢字", "\xff", "\xe2\x80", "\U0001F600", ");\n", "\n\t\t"}
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(bits[r.IntN(len(bits))])
		}
		return b.String()
	}
	carried := 0
	for range 1200 {
		old := text(r.IntN(6000))
		s := Measure([]byte(old))
		now := old
		for range 1 + r.IntN(2) {
			at := r.IntN(len(now) + 1)
			to := min(len(now), at+r.IntN(40))
			now = now[:at] + text(r.IntN(30)) + now[to:]
		}
		got, want := s.Changed([]byte(old), []byte(now)), Measure([]byte(now))
		if got.total != want.total || got.Tokens() != Estimate([]byte(now)) || got.size != want.size {
			t.Fatalf("%q\nbecame %q:\n%d units, want %d", old, now, got.total, want.total)
		}
		// The marks of the updated sum can be used for the next change.
		for _, m := range got.marks {
			if rest := Measure([]byte(now)[m.at:]).total; m.sum+rest != want.total {
				t.Fatalf("a mark at %d has %d units before it, the rest %d, all %d", m.at, m.sum, rest, want.total)
			}
		}
		if len(got.marks) > 0 {
			carried++
		}
	}
	if carried < 400 {
		t.Errorf("only %d sums had marks", carried)
	}
}
