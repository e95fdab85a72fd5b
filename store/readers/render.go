package readers

import (
	"bytes"
	"unicode/utf8"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// renderUTF16 replaces raw/1 for a file with a UTF-16 byte order mark. It is the text in UTF-8
// without the mark, as ripgrep shows it.
const renderUTF16 store.Rendering = "utf16/1"

// view is a content under a rendering.
type view struct {
	meta
	text  []byte
	split [][]byte // the lines of text, or nil if nothing has asked for them
}

type metaKey struct {
	hash      store.Hash
	rendering store.Rendering // as requested
}

// meta holds what decisions need besides the text. It is immutable and cached by hash.
type meta struct {
	rendering store.Rendering // the one in effect, because utf16/1 may have replaced raw/1
	total     int             // number of lines; a final newline begins no further line
	units     int             // of package tokens; 0 if not measured
	plain     bool            // every rendering is the content itself
	valid     bool            // the text is UTF-8
	binary    bool
	newline   bool // the text ends in a newline
}

// render returns the view of a content.
func render(content []byte, r store.Rendering) *view {
	shown := content
	v := &view{meta: meta{rendering: r}}
	if r == store.RenderClaudeRead {
		shown = claudeRead(content)
		v.plain = bytes.Equal(shown, content)
	} else {
		if text.Wide(content) {
			v.rendering = renderUTF16
		}
		shown, _ = text.Shown(content)
		v.plain = v.rendering == store.RenderRaw && bytes.Equal(claudeRead(content), content)
	}
	v.text = shown
	v.total = len(v.lines())
	v.valid = v.plain || utf8.Valid(shown)
	v.binary = text.Binary(shown)
	v.newline = len(shown) > 0 && shown[len(shown)-1] == '\n'
	return v
}

// lines returns the lines of the text, which it divides only once.
func (v *view) lines() [][]byte {
	if v.split == nil {
		v.split = diff.Lines(v.text)
	}
	return v.split
}

// slice returns lines first to last, 1-based and inclusive, unchanged.
func (v *view) slice(first, last int) []byte {
	if last < first {
		return nil
	}
	if first == 1 && last == v.total {
		return v.text
	}
	from := 0
	for _, l := range v.lines()[:first-1] {
		from += len(l)
	}
	to := from
	for _, l := range v.lines()[first-1 : last] {
		to += len(l)
	}
	return v.text[from:to]
}

// claudeRead renders cc-read/1, the form in which Claude Code's Read delivers a file. The text is
// decoded, has no byte order mark, and has LF for CRLF. claudeRead returns b itself if nothing
// changes.
func claudeRead(b []byte) []byte {
	if len(b)%2 == 0 && text.Wide(b) && b[0] == 0xff { // little endian only
		shown, _ := text.Shown(b)
		return bytes.ReplaceAll(shown, []byte("\r\n"), []byte("\n"))
	}
	b = bytes.TrimPrefix(b, []byte(text.Mark))
	if !utf8.Valid(b) {
		b = replaceInvalid(b)
	}
	if bytes.Contains(b, []byte("\r\n")) {
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}
	return b
}

// replaceInvalid replaces each maximal prefix of a broken sequence by one U+FFFD, like the WHATWG
// decoder in JavaScript. Go's functions replace whole runs or single bytes.
func replaceInvalid(b []byte) []byte {
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		out = append(out, "\uFFFD"...)
		b = b[brokenLen(b):]
	}
	return out
}

// brokenLen returns the number of bytes at the start of b that could have begun one rune.
func brokenLen(b []byte) int {
	lo, hi, need := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for ; n <= need && n < len(b); n++ {
		if b[n] < lo || b[n] > hi {
			break
		}
		lo, hi = 0x80, 0xBF
	}
	return n
}
