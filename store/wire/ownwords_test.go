package wire

import "testing"

func TestOwnWords(t *testing.T) {
	const stub = "[unchanged · 499 lines · ~4.1k tokens saved]"
	for _, c := range []struct{ text, file, want string }{
		{stub, "one\n", stub},
		{"x\n" + stub + "\ny\n", "one\n", stub},
		{"[changed · +1 -1 since your read · 9 -> 9 lines]\n@@ -1,1 +1,1 @@\n", "", "[changed · +1 -1 since your read · 9 -> 9 lines]"},
		{"ok\n  [cachebro: 50 lines \"record {1..50}\"]\n", "", `[cachebro: 50 lines "record {1..50}"]`},
		{stub + "\n", "docs\n" + stub + "\n", ""},
		{"cachebro: not repeated. Lines 1-3 of a.go are exactly as in your Read of 12:40", "", "cachebro: not repeated. Lines 1-3 of a.go are exactly as in your Read of 12:40"},
		{"cachebro: true\n", "", ""},
		{"// [cachebro: 50 lines]\n", "", ""},
		{"plain [unchanged · text\n", "", ""},
		{"[unchanged · values]\nkey = 1\n", "", ""},
	} {
		if got := OwnWords(c.text, c.file); got != c.want {
			t.Errorf("%q over %q: %q, want %q", c.text, c.file, got, c.want)
		}
	}
}
