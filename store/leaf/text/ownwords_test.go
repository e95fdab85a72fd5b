package text

import (
	"slices"
	"testing"
)

func TestOwnWords(t *testing.T) {
	const stub = "[unchanged · 499 lines · ~4.1k saved]"
	const diff = "@@ -1,2 +1,2 @@\n one\n-two\n+three"
	for _, c := range []struct {
		text, file string
		want       []string
	}{
		{stub, "one\n", []string{stub}},
		{"x\n" + stub + "\ny\n" + stub + "\n", "one\n", []string{stub}},
		{"[changed · +1 -1 since your read · 9 -> 9 lines]\n" + diff, "", []string{"[changed · +1 -1 since your read · 9 -> 9 lines]"}},
		{diff + "\n", "", []string{diff}},
		{"ok\n  [cachebro: 50 lines \"record {1..50}\"]\n", "", []string{`[cachebro: 50 lines "record {1..50}"]`}},
		{stub + "\n", "docs\n" + stub + "\n", nil},
		{"cachebro: not repeated. Lines 1-3 of a.go are exactly as in your Read of 12:40", "", []string{"cachebro: not repeated. Lines 1-3 of a.go are exactly as in your Read of 12:40"}},
		{"// [cachebro: 50 lines]\n", "", nil},
		{"plain [unchanged · text\n", "", nil},
	} {
		if got := NewOwnWords(c.text, c.file); !slices.Equal(got, c.want) {
			t.Errorf("%q over %q: %q, want %q", c.text, c.file, got, c.want)
		}
	}
}
