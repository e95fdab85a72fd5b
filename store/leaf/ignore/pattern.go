package ignore

import (
	"bytes"
	"strings"
)

// special marks the bytes that have a special meaning in a pattern.
var special = [256]bool{'*': true, '?': true, '[': true, '\\': true}

// plain returns the offset of the first special byte in a pattern, or its length.
func plain(line string) int {
	for i := range len(line) {
		if special[line[i]] {
			return i
		}
	}
	return len(line)
}

// pattern is one line of an ignore file.
type pattern struct {
	negated bool
	dirOnly bool
	base    bool // the line has no slash, so only the last component is matched
	// Most patterns are plain names or endings, which need no matcher. Without it, 50 of them take
	// 0.3 µs instead of 2.
	prefix  string // literal text at the beginning of the pattern
	literal bool   // the pattern is only prefix
	ending  string // text after the star, if the pattern is a star and a text without a slash
	parts   []part // the rest after prefix, for the matcher
}

// parse reads an ignore file (gitignore(5)).
func parse(text []byte) []pattern {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	ps := make([]pattern, 0, bytes.Count(text, []byte{'\n'})+1)
	for line := range strings.SplitSeq(string(text), "\n") {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "\x00") // git's lines are C strings
		line = trimSpaces(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var p pattern
		if line[0] == '!' {
			p.negated = true
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			p.dirOnly = true
			line = line[:len(line)-1]
		}
		p.base = !strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" {
			continue
		}
		// Git matches the part after the literal text as a separate pattern. So the stars in
		// "foo**/bar" count as the beginning of a component.
		begins := plain(line)
		p.literal = begins == len(line)
		p.prefix, line = line[:begins], line[begins:]
		switch ending := strings.TrimPrefix(line, "*"); {
		case p.literal:
		case p.base && begins == 0 && ending != "" && plain(ending) == len(ending):
			p.ending = ending // it follows a star: the line begins with a special byte, and ending has none
		default:
			ok := false
			p.parts, ok = compile(line)
			if !ok {
				continue // it matches nothing
			}
		}
		ps = append(ps, p)
	}
	return ps
}

// trimSpaces removes trailing spaces that are not escaped.
func trimSpaces(line string) string {
	end := len(line)
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
			end = len(line)
		case ' ':
			if end == len(line) {
				end = i
			}
		default:
			end = len(line)
		}
	}
	if end < len(line) {
		return line[:end]
	}
	return line
}

// matches reports whether the pattern matches. rel is the path relative to the directory of the
// ignore file, and name its last component.
func (p *pattern) matches(rel, name string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	s := rel
	if p.base {
		s = name
	}
	switch {
	case p.literal:
		return s == p.prefix
	case p.ending != "":
		return strings.HasSuffix(s, p.ending)
	}
	rest, ok := strings.CutPrefix(s, p.prefix)
	return ok && match(p.parts, rest)
}

// mayMatchInside reports whether the pattern may match a name in the directory rel because of the
// directory's path. A pattern without a slash matches regardless of the path.
func (p *pattern) mayMatchInside(rel string) bool {
	inside := rel + "/"
	return !p.base && (strings.HasPrefix(p.prefix, inside) || !p.literal && strings.HasPrefix(inside, p.prefix))
}
