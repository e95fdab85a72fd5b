package text

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// utf16With encodes s as UTF-16 with a byte order mark. It does not use the code under test.
func utf16With(e Encoding, s string) []byte {
	out := []byte(marks[e])
	for _, u := range utf16.Encode([]rune(s)) {
		if e == UTF16LE {
			out = append(out, byte(u), byte(u>>8))
		} else {
			out = append(out, byte(u>>8), byte(u))
		}
	}
	return out
}

func TestEncodings(t *testing.T) {
	const s = "one ä 日本 😀\r\ntwo\n"
	for _, c := range []struct {
		content string
		e       Encoding
		shown   string
		binary  bool
	}{
		{"", UTF8, "", false},
		{s, UTF8, s, false},
		{Mark + s, UTF8Mark, Mark + s, false},
		{string(utf16With(UTF16LE, s)), UTF16LE, s, false},
		{string(utf16With(UTF16BE, s)), UTF16BE, s, false},
		{"\xff\xfe", UTF16LE, "", false},
		{"\xfe\xff\x00a\x00", UTF16BE, "a\uFFFD", false},
		{"\xff\xfe\x00\xd8a\x00", UTF16LE, "\uFFFDa", false},
		{"caf\xe9\n", SingleByte, "caf\xe9\n", false},
		{Mark + "caf\xe9\n", SingleByte, Mark + "caf\xe9\n", false},
		{"a\x00b\n", UTF8, "a\x00b\n", true},
		{string(utf16With(UTF16LE, s))[2:], SingleByte, "", true},
		{"\xff\xfe\x00\x00a\x00\x00\x00", UTF16LE, "\x00a\x00", true}, // UTF-32
		{string(utf16With(UTF16BE, strings.Repeat("a", 7999)+"\x00")), UTF16BE, "", true},
		{string(utf16With(UTF16BE, strings.Repeat("a", 8000)+"\x00")), UTF16BE, strings.Repeat("a", 8000) + "\x00", false},
	} {
		b := []byte(c.content)
		if got := EncodingOf(b); got != c.e && !(c.binary && c.e == SingleByte) {
			t.Errorf("%.20q: %v, want %v", c.content, got, c.e)
		}
		shown, ok := Shown(b)
		if ok == c.binary || ok && string(shown) != c.shown || Binary(b) != c.binary {
			t.Errorf("%.20q: shown %.30q, text %v, want %.30q; binary %v", c.content, shown, ok, c.shown, Binary(b))
		}
	}
}

func TestLikeIsTheWayBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was, is := rapid.String().Draw(t, "was"), rapid.String().Draw(t, "is")
		for _, e := range []Encoding{UTF16LE, UTF16BE} {
			content, want := utf16With(e, was), utf16With(e, is)
			if strings.HasPrefix(was, Mark) || strings.HasPrefix(is, Mark) {
				t.Skip("a second mark")
			}
			shown, ok := Shown(content)
			if !ok {
				if _, err := Like(content, []byte(is)); !errors.Is(err, ErrNotText) {
					t.Fatalf("%v", err)
				}
				continue
			}
			if string(shown) != was {
				t.Fatalf("shown %q", shown)
			}
			if got, err := Like(content, []byte(is)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v %q -> %q: %x, %v; want %x", e, was, is, got, err, want)
			}
		}
	})
	for _, damaged := range []string{"\xff\xfe\x00\xd8a\x00", "\xff\xfea\x00b"} {
		if _, err := Like([]byte(damaged), []byte("x")); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

func TestEndsOf(t *testing.T) {
	for s, want := range map[string]struct {
		e     Ends
		final bool
	}{"": {}, "a": {}, "a\n": {LF, true}, "a\r\nb": {CRLF, false}, "a\rb\r": {CR, true}, "a\r\nb\n": {Mixed, true}, "a\n\rb": {Mixed, false}} {
		if e, final := EndsOf([]byte(s)); e != want.e || final != want.final {
			t.Errorf("%q: %v %v", s, e, final)
		}
	}
}
