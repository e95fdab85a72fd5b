package search

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// matcher finds the matching lines of a text. It is not safe for concurrent use.
type matcher struct {
	auto   *automaton
	must   []byte // a literal that every matching line contains; nil if unknown
	only   bool   // must is the whole query
	buf    []byte // scratch memory for the folded text
	read   []byte // scratch memory for the text
	whole  bool   // return long lines in full
	folded bool   // must is in lower case, and ASCII case is ignored
}

func newMatcher(q Query, auto *automaton, must string) *matcher {
	m := &matcher{auto: auto}
	if !q.Regex {
		must = q.Pattern
	}
	if q.CaseSensitive && !strings.Contains(q.Pattern, "(?") {
		m.must = []byte(must)
	} else if isASCII(must) {
		m.must = []byte(strings.ToLower(must))
		m.folded = true
	}
	if len(m.must) == 0 {
		m.must = nil
	}
	m.only = m.must != nil && !q.Regex
	return m
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// kelvin and longS fold to ASCII letters. If case is ignored, a text with one of them cannot be
// compared byte by byte.
var kelvin, longS = []byte("\u212a"), []byte("\u017f")

func foldsOddly(text []byte) bool { return bytes.Contains(text, kelvin) || bytes.Contains(text, longS) }

// lines returns the first matching lines, without their newlines. most is the maximum number of
// lines returned, and total the number of all matching lines.
func (m *matcher) lines(p store.Path, content []byte, most int) (out []Line, total int) {
	content = bytes.TrimPrefix(content, []byte(text.Mark)) // as in ripgrep, the byte order mark is not part of the first line
	no, counted := 1, 0
	bounds := func(at int) (start, end int) {
		start, end = bytes.LastIndexByte(content[:at], '\n')+1, len(content)
		if n := bytes.IndexByte(content[at:], '\n'); n >= 0 {
			end = at + n
		}
		return start, end
	}
	emit := func(start, end, at int) {
		total++
		if len(out) >= most {
			return
		}
		no += bytes.Count(content[counted:start], []byte{'\n'})
		counted = start
		if m.must != nil && !m.only && end-start > maxLineText {
			at = start + max(0, m.auto.Match(content[start:end], 0)) // the match need not be at the position of must
		}
		l := Line{Text: content[start:end], At: min(at, end) - start}
		if !m.whole {
			l = around(l.Text, l.At)
		}
		l.Text = bytes.Clone(l.Text)
		l.Path, l.No = p, no
		out = append(out, l)
	}
	hay, whole := content, m.must == nil
	if m.folded && !whole {
		ascii := false
		m.buf, ascii = lowerASCII(m.buf, content)
		hay, whole = m.buf, !ascii && foldsOddly(content)
	}
	if whole {
		for at := 0; at < len(content); {
			i := m.auto.Match(content, at)
			if i < 0 {
				break
			}
			start, end := bounds(i)
			emit(start, end, i)
			at = end + 1
		}
		return out, total
	}
	for at := 0; at < len(hay); {
		i := bytes.Index(hay[at:], m.must)
		if i < 0 {
			break
		}
		start, end := bounds(at + i)
		if m.only || m.auto.MatchLine(content[start:end]) {
			emit(start, end, at+i)
		}
		at = end + 1
	}
	return out, total
}

// lowerASCII writes the text into buf, with ASCII letters in lower case, eight bytes at a time. It
// grows buf if necessary. It reports whether the whole text is ASCII.
func lowerASCII(buf, text []byte) ([]byte, bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	buf = slices.Grow(buf[:0], len(text))[:len(text)]
	i, seen := 0, uint64(0)
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		seen |= x
		// The following sets the top bit of each byte in upper that is a letter between A and Z.
		low := x &^ high
		upper := ((low + (0x80-'A')*ones) ^ (low + (0x7f-'Z')*ones)) & ^x & high
		binary.LittleEndian.PutUint64(buf[i:], x|upper>>2)
	}
	for ; i < len(text); i++ {
		c := text[i]
		seen |= uint64(c)
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf, seen&high == 0
}
