package text

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// Encoding is how the bytes of a text spell its characters.
type Encoding uint8

// The encodings that are told apart.
const (
	UTF8 Encoding = iota
	UTF8Mark
	UTF16LE // with a mark; without one it is binary
	UTF16BE
	SingleByte // not UTF-8: Latin-1 or another code page, the bytes do not say which
)

func (e Encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with a byte order mark", "UTF-16 LE", "UTF-16 BE", "not UTF-8"}[e]
}

// codec is nil for what is not UTF-16.
func (e Encoding) codec() encoding.Encoding {
	switch e {
	case UTF16LE:
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case UTF16BE:
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return nil
}

// Ends is how the lines of a text end.
type Ends uint8

// The kinds of line ends. A text whose only line has no end has LF.
const (
	LF Ends = iota
	CRLF
	CR
	Mixed
)

// Mark is the byte order mark in a text that is UTF-8.
const Mark = "\uFEFF"

var marks = map[Encoding]string{UTF8Mark: Mark, UTF16LE: "\xff\xfe", UTF16BE: "\xfe\xff"}

// EncodingOf tells the encoding of a content.
func EncodingOf(content []byte) Encoding {
	for e, mark := range marks {
		if bytes.HasPrefix(content, []byte(mark)) && (e != UTF8Mark || utf8.Valid(content)) {
			return e
		}
	}
	if !utf8.Valid(content) {
		return SingleByte
	}
	return UTF8
}

// Shown returns the text of a content as everybody is shown it: UTF-16 with a mark as
// UTF-8 without one, any other text as it is. ok is false for what is binary.
//
// Reading, searching, comparing and merging all work on this text, so they agree on its
// lines. Like is the way back.
func Shown(content []byte) (shown []byte, ok bool) {
	shown = content
	if c := wide(content).codec(); c != nil {
		shown, _ = c.NewDecoder().Bytes(content) // what is damaged becomes U+FFFD
	}
	return shown, bytes.IndexByte(shown[:min(len(shown), sniffed)], 0) < 0
}

// Binary reports whether content is no text to git and ripgrep: there is a NUL among the
// first 8,000 bytes, and no mark says that it is UTF-16. Text that is not UTF-8 is still
// text.
func Binary(content []byte) bool {
	_, ok := Shown(content[:min(len(content), 2*sniffed+2)]) // UTF-16 takes two bytes and more for each that is shown
	return !ok
}

// sniffed is how many bytes tell a text from what is binary.
const sniffed = 8000

// Recoded reports whether a content was written anew in another encoding, of which a
// comparison of the texts may say nothing.
func Recoded(a, b []byte) bool {
	return EncodingOf(a) != EncodingOf(b) && (Wide(a) || Wide(b))
}

// Wide reports whether content has a mark that says that it is UTF-16.
func Wide(content []byte) bool { return wide(content) != UTF8 }

// wide is EncodingOf without a look beyond the mark: UTF8 for all that is not UTF-16.
func wide(content []byte) Encoding {
	for _, e := range [...]Encoding{UTF16LE, UTF16BE} {
		if bytes.HasPrefix(content, []byte(marks[e])) {
			return e
		}
	}
	return UTF8
}

// ErrNotText is the error of Like for a content that is binary.
var ErrNotText = errors.New("it is binary")

// ErrDamaged is the error of Like for UTF-16 that cannot be written back as it was.
var ErrDamaged = errors.New("it is damaged UTF-16")

// Like spells shown, a text that was made from Shown(content), as content is spelled.
func Like(content, shown []byte) ([]byte, error) {
	own, ok := Shown(content)
	if !ok {
		return nil, ErrNotText
	}
	e := wide(content)
	if e == UTF8 {
		return shown, nil
	}
	if back, err := encode(e, own); err != nil || !bytes.Equal(back, content) {
		return nil, ErrDamaged
	}
	return encode(e, shown)
}

func encode(e Encoding, shown []byte) ([]byte, error) {
	if len(shown) == 0 {
		return []byte(marks[e]), nil
	}
	return e.codec().NewEncoder().Bytes(shown)
}

// EndsOf tells how the lines of a text end, and whether its last line has an end.
func EndsOf(shown []byte) (e Ends, final bool) {
	crlf := bytes.Count(shown, []byte("\r\n"))
	lf := bytes.Count(shown, []byte("\n")) - crlf
	cr := bytes.Count(shown, []byte("\r")) - crlf
	kinds := 0
	for i, n := range [...]int{LF: lf, CRLF: crlf, CR: cr} {
		if n > 0 {
			kinds++
			e = Ends(i)
		}
	}
	if kinds > 1 {
		e = Mixed
	}
	return e, bytes.HasSuffix(shown, []byte("\n")) || e == CR && bytes.HasSuffix(shown, []byte("\r"))
}
