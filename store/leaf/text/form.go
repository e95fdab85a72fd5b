package text

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// Encoding is the encoding of a text's characters.
type Encoding uint8

// The encodings that are distinguished.
const (
	UTF8 Encoding = iota
	UTF8Mark
	UTF16LE // with a byte order mark; without a mark it is binary
	UTF16BE
	SingleByte // not UTF-8: Latin-1 or another code page; which one is unknown
)

func (e Encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with a byte order mark", "UTF-16 LE", "UTF-16 BE", "not UTF-8"}[e]
}

// codec returns the codec of a UTF-16 encoding, and nil for other encodings.
func (e Encoding) codec() encoding.Encoding {
	switch e {
	case UTF16LE:
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case UTF16BE:
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return nil
}

// Ends is the kind of line ends in a text.
type Ends uint8

// The kinds of line ends. A text of one line without an end counts as LF.
const (
	LF Ends = iota
	CRLF
	CR
	Mixed
)

// Mark is the byte order mark, in UTF-8.
const Mark = "\uFEFF"

var marks = map[Encoding]string{UTF8Mark: Mark, UTF16LE: "\xff\xfe", UTF16BE: "\xfe\xff"}

// EncodingOf returns the encoding of a content.
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

// Shown returns the text of a content as shown to readers. UTF-16 with a mark is converted to UTF-8
// without a mark. Any other text is unchanged. ok is false for binary content.
//
// Reading, searching, comparing and merging all use this text, so they agree on its lines. Like
// converts it back.
func Shown(content []byte) (shown []byte, ok bool) {
	shown = content
	if c := wide(content).codec(); c != nil {
		shown, _ = c.NewDecoder().Bytes(content) // damaged parts become U+FFFD
	}
	return shown, bytes.IndexByte(shown[:min(len(shown), sniffed)], 0) < 0
}

// Binary reports whether git and ripgrep treat content as binary. They do if there is a NUL among
// the first 8,000 bytes and no mark of UTF-16. Text need not be UTF-8.
func Binary(content []byte) bool {
	_, ok := Shown(content[:min(len(content), 2*sniffed+2)]) // UTF-16 has at least two bytes for each shown byte
	return !ok
}

// sniffed is the number of bytes examined for binary content.
const sniffed = 8000

// EncodingDiffers reports whether two contents differ in encoding and one of them is UTF-16. Their
// texts may be equal nevertheless.
func EncodingDiffers(a, b []byte) bool {
	return EncodingOf(a) != EncodingOf(b) && (Wide(a) || Wide(b))
}

// Wide reports whether content has a byte order mark of UTF-16.
func Wide(content []byte) bool { return wide(content) != UTF8 }

// wide returns the encoding of UTF-16 that the byte order mark of content indicates, or UTF8 if
// there is no such mark.
func wide(content []byte) Encoding {
	for _, e := range [...]Encoding{UTF16LE, UTF16BE} {
		if bytes.HasPrefix(content, []byte(marks[e])) {
			return e
		}
	}
	return UTF8
}

// ErrNotText means that the content is binary.
var ErrNotText = errors.New("it is binary")

// ErrDamaged means that UTF-16 would not be written back unchanged.
var ErrDamaged = errors.New("it is damaged UTF-16")

// Like encodes shown, a text derived from Shown(content), in the encoding of content.
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

// EndsOf returns the kind of line ends of a text, and whether its last line has an end.
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
