package diff

import (
	"errors"
	"testing"

	"cachebro/store/leaf/text"
)

func TestMerge(t *testing.T) {
	for _, tc := range []struct{ base, a, b, want string }{
		{"1\n2\n3\n4\n5\n", "1\nA\n3\n4\n5\n", "1\n2\n3\nB\n5\n", "1\nA\n3\nB\n5\n"},
		{"1\n2\n3\n", "1\n2\n3\n", "1\nB\n3\n", "1\nB\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nX\n3\n", "1\nX\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nY\n3\n", ""},
		{"1\n2\n3\n4\n", "1\n3\n4\n", "1\n2\n3\n4\n5", "1\n3\n4\n5"},
		{"1\n2\n", "1\n2\na\n", "1\n2\nb\n", ""},
		{"", "a\n", "a\n", "a\n"},
	} {
		got, err := Merge([]byte(tc.base), []byte(tc.a), []byte(tc.b))
		if (err == nil) != (tc.want != "") || string(got) != tc.want {
			t.Errorf("merge %q: %q and %q: %q %v, want %q", tc.base, tc.a, tc.b, got, err, tc.want)
		}
	}
}

func utf16Of(t *testing.T, mark, s string) []byte {
	t.Helper()
	b, err := text.Like([]byte(mark), []byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// UTF-16 used to be merged and compared as bytes, or not at all.
func TestEncodings(t *testing.T) {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		spell := func(s string) []byte { return utf16Of(t, mark, s) }
		base, a, b := spell("1\r\n2\r\n3\r\nä\r\n"), spell("1\r\n2\r\n3\r\n日\r\n"), spell("one\r\n2\r\n3\r\nä\r\n")
		if got, err := Merge(base, a, b); err != nil || string(got) != string(spell("one\r\n2\r\n3\r\n日\r\n")) {
			t.Errorf("%q, %v", got, err)
		}
		if got := string(Compare(base, a).Body(0)); got != "@@ -4,1 +4,1 @@\n-ä\r\n+日\r\n" {
			t.Errorf("diff %q", got)
		}
		// One side converted the text to UTF-8, the other changed a line.
		if got, err := Merge(base, []byte("1\r\n2\r\n3\r\nä\r\n"), b); err != nil || string(got) != "one\r\n2\r\n3\r\nä\r\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := Merge([]byte("a\nb\nc\n"), []byte("caf\xe9\nb\nc\n"), []byte("a\nb\ncafé\n")); !errors.Is(err, ErrEncodings) {
		t.Errorf("Latin-1 and UTF-8 in one file: %q, %v", got, err)
	}
	if got, err := Merge([]byte("\xe9\nb\nc\n"), []byte("\xe9\nB\nB\nc\n"), []byte("\xe9\nb\nc\nd\xe8\n")); err != nil || string(got) != "\xe9\nB\nB\nc\nd\xe8\n" {
		t.Errorf("Latin-1: %q, %v", got, err)
	}
}
