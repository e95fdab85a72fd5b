package tokens

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// The promise is ±10 % over a corpus of code; a single language may deviate a little more.
func TestEstimateAgainstTokenizer(t *testing.T) {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	var real, est, langs int
	for _, src := range sources() {
		var r, e, size int
		for _, text := range collect(src, true, 400<<10) {
			ids, _, err := enc.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			r += len(ids)
			e += EstimateString(text)
			size += len(text)
		}
		if r == 0 {
			t.Logf("%-9s not on this machine", src.lang)
			continue
		}
		off := float64(e-r) / float64(r) * 100
		t.Logf("%-9s %8d bytes %7d tokens, estimate %7d (%+.1f %%)", src.lang, size, r, e, off)
		if off > 15 || off < -15 {
			t.Errorf("%s: estimate is off by %.1f %%", src.lang, off)
		}
		real, est, langs = real+r, est+e, langs+1
	}
	if langs == 0 {
		t.Fatal("no source text found on this machine")
	}
	off := float64(est-real) / float64(real) * 100
	t.Logf("all       %d tokens, estimate %d (%+.1f %%)", real, est, off)
	if off > 10 || off < -10 {
		t.Errorf("estimate is off by %.1f %% over the whole corpus", off)
	}
}

// The texts of cachebro itself are estimated too. They are not code, but must not deviate much.
func TestEstimateOfOwnWords(t *testing.T) {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"[unchanged · 245 lines · ~1.8k saved]",
		"[unchanged · lines 50-60 of 246 · changed elsewhere · ~98 saved]",
		"[changed · +2 -1 since your read · 245 -> 246 lines]",
		"cachebro: not repeated. Lines 1-245 of src/a.go are exactly as in your Read of 12:40 (245 lines). Read it again to get the text.",
	} {
		ids, _, err := enc.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := EstimateString(s); got < len(ids)-4 || got > len(ids)+6 {
			t.Errorf("%q: estimate %d, really %d", s, got, len(ids))
		}
	}
}

func TestEstimateEdges(t *testing.T) {
	for _, c := range []struct {
		in       string
		min, max int
	}{
		{"", 0, 0},
		{"a", 1, 1},
		{"\n", 1, 1},
		{" ", 1, 1},
		{"\xff\xfe\x00", 1, 6},
		{strings.Repeat(" ", 4000), 1, 200},
		{strings.Repeat("a", 4000), 300, 2000},
		{strings.Repeat("ж", 100), 20, 100},
		{"日本語のテキスト", 4, 20},
	} {
		if got := EstimateString(c.in); got < c.min || got > c.max {
			t.Errorf("Estimate(%.20q) = %d, want %d to %d", c.in, got, c.min, c.max)
		}
	}
}

// The units of a text are the sum of the units of its parts, if a piece begins at the first line of
// each part. Most lines are such lines.
func TestUnitsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	bits := []string{"word", "Word", "HTTPServer", " ", "  ", "\t", "\v", "\n", "\n", "\r\n", "\r", "\n\n\n", "      ", "12345", "()", "//", "/", "====", "é", "漢字", "\xff", "\xe2\x80", "\U0001F600", ");\n", "\n\t\t", "\n//"}
	begin, lines := 0, 0
	for range 4000 {
		var text []byte
		for range r.IntN(60) {
			text = append(text, bits[r.IntN(len(bits))]...)
		}
		at := 0
		for _, line := range bytes.SplitAfter(text, []byte("\n"))[1:] {
			at = bytes.IndexByte(text[at:], '\n') + at + 1
			lines++
			if len(line) == 0 || !BeginAt(line) {
				continue
			}
			begin++
			if sum, want := Units(text[:at])+Units(text[at:]), Units(text); sum != want {
				t.Fatalf("%q and %q: %d units, together %d", text[:at], text[at:], sum, want)
			}
		}
	}
	if begin < lines/4 {
		t.Errorf("a piece begins at %d of %d lines", begin, lines)
	}
}

func FuzzPieces(f *testing.F) {
	f.Add([]byte("func a(b int) {\n\treturn \"ж\xff\" + HTTPServer // 1234\r\n}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i := 0; i < len(b); {
			end, shape, n := piece(b, i)
			if end <= i || end > len(b) || shape < 0 || shape >= shapes || n < 1 {
				t.Fatalf("piece(%q, %d) = %d, %d, %d", b, i, end, shape, n)
			}
			i = end
		}
		if n := Estimate(b); n < 0 || n > 2*len(b)+1 || (n == 0) != (len(b) == 0) {
			t.Fatalf("Estimate(%q) = %d", b, n)
		}
	})
}

func TestFormat(t *testing.T) {
	for n, want := range map[int]string{0: "~0", 87: "~87", 999: "~999", 1000: "~1.0k", 1849: "~1.8k", 45230: "~45.2k", -87: "~-87", -1849: "~-1.8k"} {
		if got := Format(n); got != want {
			t.Errorf("Format(%d) = %q, want %q", n, got, want)
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	text := []byte(strings.Join(collect(sources()[0], true, 1<<20), ""))
	if len(text) == 0 {
		b.Skip("no Go source on this machine")
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Estimate(text)
	}
}
