package search

import (
	"strings"
	"testing"
)

// TestWorstExpression: a short expression may need as many states as the text has bytes.
func TestWorstExpression(t *testing.T) {
	// This is the worst allowed expression. The search creates a state for each byte of the text,
	// but it must end.
	d, err := newAutomaton("(?:a|b)*a" + strings.Repeat("(?:a|b)", 2400) + "c")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("abbabaaab", 800))
	if d.Match(text, 0) >= 0 {
		t.Error("a match without a c")
	}
	if d.kept > maxSeeds+maxSteps {
		t.Errorf("%d instructions are kept", d.kept)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		expr, text string
		at, want   int // the line that is found begins at want; -1 means that none is found
	}{
		{"b+c", "a\nabbc\nbc\n", 0, 2},
		{"b+c", "a\nabbc\nbc\n", 7, 7},
		{"^$", "a\n\nb", 0, 2},
		{`\bö\b`, "xö\nö x", 0, 4},
		{"x$", "y\nx", 0, 2},
		{"a.b", "a\xffb\na b", 0, 4},
		{"z", "a\nb", 0, -1},
	} {
		d, err := newAutomaton("(?m:" + c.expr + ")")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time with a clone of the automaton
			i := d.Match([]byte(c.text), c.at)
			if i >= 0 {
				i = strings.LastIndexByte(c.text[:i], '\n') + 1
			}
			if i != c.want {
				t.Errorf("%q in %q from %d: line at %d, want %d", c.expr, c.text, c.at, i, c.want)
			}
			d = d.Clone()
		}
	}
	if got := unicodeClasses(`[\d_]\S`); strings.Contains(got, `\d`) || strings.Contains(got, `\S`) {
		t.Errorf("classes stay ASCII: %s", got)
	}
}
