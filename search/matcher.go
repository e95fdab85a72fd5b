package search

import (
	"bytes"
	"slices"
	"strings"

	"cachebro/store"
)

// matcher finds the matching lines of a text. Not safe for concurrent use.
type matcher struct {
	auto   *dfa
	must   []byte // what every matching line contains; nil: nothing is known
	only   bool   // must is the whole query
	buf    []byte // scratch
	folded bool   // must is lower case, to be compared ASCII-folded
}

func newMatcher(q Query, auto *dfa, must string) *matcher {
	m := &matcher{auto: auto}
	if !q.Regex {
		must = q.Pattern
	}
	if q.CaseSensitive && !strings.Contains(q.Pattern, "(?") {
		m.must, m.only = []byte(must), !q.Regex
	} else if isASCII(must) {
		m.must, m.only, m.folded = []byte(strings.ToLower(must)), !q.Regex, true
	}
	if len(m.must) == 0 {
		m.must, m.only = nil, false
	}
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

// kelvin and longS fold to ASCII letters, so that a text that holds them
// cannot be compared byte by byte without regard to case.
var kelvin, longS = []byte("\u212a"), []byte("\u017f")

// lines returns each line with a match, without its newline.
func (m *matcher) lines(p store.Path, content []byte) []Line {
	var out []Line
	no, counted := 1, 0
	bounds := func(at int) (start, end int) {
		start, end = bytes.LastIndexByte(content[:at], '\n')+1, len(content)
		if n := bytes.IndexByte(content[at:], '\n'); n >= 0 {
			end = at + n
		}
		return start, end
	}
	emit := func(start, end int) {
		no += bytes.Count(content[counted:start], []byte{'\n'})
		counted = start
		out = append(out, Line{Path: p, No: no, Text: bytes.Clone(content[start:end])})
	}
	if m.must == nil || m.folded && (bytes.Contains(content, kelvin) || bytes.Contains(content, longS)) {
		for at := 0; at < len(content); {
			i := m.auto.match(content, at)
			if i < 0 {
				break
			}
			start, end := bounds(i)
			emit(start, end)
			at = end + 1
		}
		return out
	}
	hay := content
	if m.folded {
		m.buf = lowerASCII(m.buf, content)
		hay = m.buf
	}
	for at := 0; at < len(hay); {
		i := bytes.Index(hay[at:], m.must)
		if i < 0 {
			break
		}
		start, end := bounds(at + i)
		if m.only || m.auto.matchLine(content[start:end]) {
			emit(start, end)
		}
		at = end + 1
	}
	return out
}

// lowerASCII writes the folded text into buf, grown where it is too small.
func lowerASCII(buf, text []byte) []byte {
	buf = slices.Grow(buf[:0], len(text))[:len(text)]
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf
}
