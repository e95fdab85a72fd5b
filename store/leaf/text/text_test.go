package text

import (
	"strings"
	"testing"
)

func TestBinary(t *testing.T) {
	for text, want := range map[string]bool{"": false, "plain\n": false, "\xff\xfe": false, "a\x00b": true, strings.Repeat("a", 7999) + "\x00": true, strings.Repeat("a", 8000) + "\x00": false} {
		if got := Binary([]byte(text)); got != want {
			t.Errorf("%.20q of %d bytes: %v, want %v", text, len(text), got, want)
		}
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string]int{"": 0, "\n": 1, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2} {
		if got := Lines([]byte(text)); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := Count(n, "file"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 9999: "9999 B", 10_240: "10.0 KiB", 2 << 20: "2.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -123: "-123"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"main.go", "mian.go", 1}, {"ca", "abc", 3}, {"abcdefgh", "x", 8}} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("from %q to %q: %d and back %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
