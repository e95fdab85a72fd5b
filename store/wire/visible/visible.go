// Package visible makes characters visible that a terminal would act on or hide. A file name,
// commit text or program output may hold control sequences, marks that reverse the direction of
// text, and unusual line breaks. On a terminal they can hide a line or fake one.
//
// Everything that cachebro sends to a terminal or a pager passes through a Writer. Output to a
// file, a pipe or a program that requested bytes is left unchanged. A Writer holds back an
// incomplete character until its other bytes are written.
package visible

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Acts reports whether a terminal or line-reading program would act on a rune instead of showing
// it.
func Acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// Writer writes to a terminal.
type Writer struct {
	to   io.Writer
	held []byte
}

// New returns a Writer for the stream to.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns the stream that w writes to. It is for the user's own programs and for output that
// must not be changed.
func Raw(w io.Writer) io.Writer {
	if v, ok := w.(*Writer); ok {
		return v.to
	}
	return w
}

// Write writes p in visible form.
func (w *Writer) Write(p []byte) (int, error) {
	all := p
	if len(w.held) > 0 {
		all = append(w.held, p...)
	}
	out, rest := show(all, false)
	w.held = bytes.Clone(rest)
	if len(out) > 0 {
		if _, err := w.to.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes the bytes held back.
func (w *Writer) Flush() error {
	out, _ := show(w.held, true)
	w.held = nil
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}

// colours are the escape sequences that cachebro itself writes.
var colours = [][]byte{[]byte("\x1b[0m"), []byte("\x1b[1m"), []byte("\x1b[2m"), []byte("\x1b[31m"), []byte("\x1b[32m"), []byte("\x1b[33m"), []byte("\x1b[36m")}

// show returns p in visible form. rest is the end of p that cannot be shown until more bytes
// arrive.
func show(p []byte, last bool) (out, rest []byte) {
	out = make([]byte, 0, len(p)+len(p)/8)
	for len(p) > 0 {
		c := p[0]
		switch {
		case c == '\n' || c == '\t' || c >= ' ' && c < 0x7f:
			out, p = append(out, c), p[1:]
			continue
		case c == '\r' && len(p) == 1 && !last:
			return out, p
		case c == '\r' && len(p) > 1 && p[1] == '\n': // a line end
			out, p = append(out, '\r', '\n'), p[2:]
			continue
		case c == 0x1b:
			n, more := colour(p)
			if more && !last {
				return out, p
			}
			if n > 0 {
				out, p = append(out, p[:n]...), p[n:]
				continue
			}
		}
		if !last && !utf8.FullRune(p) {
			return out, p
		}
		r, n := utf8.DecodeRune(p)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, "<%02X>", c)
		case r < 0x80:
			out = append(out, '^', byte(r)^0x40)
		case Acts(r):
			out = fmt.Appendf(out, "<U+%04X>", r)
		default:
			out = append(out, p[:n]...)
		}
		p = p[n:]
	}
	return out, nil
}

// colour returns the length of the colour sequence of cachebro at the beginning of p, or 0 if there
// is none. more means that p may be the beginning of such a sequence.
func colour(p []byte) (n int, more bool) {
	for _, s := range colours {
		if bytes.HasPrefix(p, s) {
			return len(s), false
		}
		more = more || bytes.HasPrefix(s, p)
	}
	return 0, more
}

// Controls makes the control characters in a text visible as a Writer does, but leaves line ends
// and tabs unchanged. It also shows cachebro's own colours as text, because it serves models and
// not terminals.
func Controls(s string) string {
	acts := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < 0x80:
			b.WriteString("^" + string(r^0x40))
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}
