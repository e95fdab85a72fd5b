package ignore

import (
	"bytes"
	"strings"
)

// pattern is one line of an ignore file.
type pattern struct {
	glob    string
	negated bool
	dirOnly bool
	base    bool // matched against the last name only: the line had no slash
	// Nearly all patterns are names or endings, which need no matcher: 50 of
	// them cost 0.3 µs instead of 2.
	literal bool   // glob has nothing special in it
	ending  string // glob is a star and this, and base
}

// parse reads an ignore file (gitignore(5)).
func parse(text []byte) []pattern {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var ps []pattern
	for line := range strings.SplitSeq(string(text), "\n") {
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
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
		p.glob = strings.TrimPrefix(line, "/")
		if p.glob == "" {
			continue
		}
		const special = `*?[\`
		p.literal = !strings.ContainsAny(p.glob, special)
		if p.base && p.glob[0] == '*' && !strings.ContainsAny(p.glob[1:], special) {
			p.ending = p.glob[1:]
		}
		ps = append(ps, p)
	}
	return ps
}

// trimSpaces removes trailing spaces that no backslash protects.
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

// matches reports whether a name matches; rel is its path relative to the
// directory of the ignore file.
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
		return s == p.glob
	case p.ending != "":
		return strings.HasSuffix(s, p.ending)
	}
	return wildmatch(p.glob, s)
}

// wildmatch is git's wildmatch with WM_PATHNAME: a star does not match a
// slash, a double star between slashes matches any number of directories.
func wildmatch(p, s string) bool {
	return wild(p, s, true)
}

// wild matches; atStart says that p begins a path component.
func wild(p, s string, atStart bool) bool {
	for len(p) > 0 {
		c := p[0]
		switch c {
		case '*':
			n := 1
			for n < len(p) && p[n] == '*' {
				n++
			}
			rest := p[n:]
			if n > 1 && atStart && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
				return doubleStar(rest, s)
			}
			for i := 0; ; i++ {
				if wild(rest, s[i:], false) {
					return true
				}
				if i >= len(s) || s[i] == '/' {
					return false
				}
			}
		case '?':
			if s == "" || s[0] == '/' {
				return false
			}
			p, s = p[1:], s[1:]
		case '[':
			if s == "" || s[0] == '/' {
				return false
			}
			rest, ok := class(p[1:], s[0])
			if !ok {
				return false
			}
			p, s = rest, s[1:]
		case '\\':
			if len(p) == 1 || s == "" || p[1] != s[0] {
				return false
			}
			c = p[1]
			p, s = p[2:], s[1:]
		default:
			if s == "" || s[0] != c {
				return false
			}
			p, s = p[1:], s[1:]
		}
		atStart = c == '/'
	}
	return s == ""
}

// doubleStar matches what follows "**" at the start of a component: anything,
// slashes included, and no directory at all when a plain slash follows.
func doubleStar(rest, s string) bool {
	if rest == "" || rest[0] == '/' && wild(rest[1:], s, true) {
		return true
	}
	for i := range len(s) {
		if s[i] == '/' && wild(rest, s[i:], false) {
			return true
		}
	}
	return false
}

// class matches one byte against a bracket expression; p begins behind the
// bracket. It returns what follows the closing bracket; ok is false when the
// byte is not in the class or the class never ends.
func class(p string, c byte) (rest string, ok bool) {
	negated := false
	if p != "" && (p[0] == '!' || p[0] == '^') {
		negated = true
		p = p[1:]
	}
	in, first := false, true
	for {
		if p == "" {
			return "", false
		}
		if p[0] == ']' && !first {
			break
		}
		first = false
		if strings.HasPrefix(p, "[:") {
			end := strings.Index(p, "]")
			if end < 0 {
				return "", false
			}
			if end >= 3 && p[end-1] == ':' {
				member, known := posixClass(p[2:end-1], c)
				if !known {
					return "", false
				}
				in = in || member
				p = p[end+1:]
				continue
			}
			in = in || c == '['
			p = p[1:]
			continue
		}
		lo := p[0]
		p = p[1:]
		if lo == '\\' {
			if p == "" {
				return "", false
			}
			lo = p[0]
			p = p[1:]
		}
		if len(p) > 1 && p[0] == '-' && p[1] != ']' {
			hi := p[1]
			p = p[2:]
			if hi == '\\' {
				if p == "" {
					return "", false
				}
				hi = p[0]
				p = p[1:]
			}
			in = in || lo <= c && c <= hi
			continue
		}
		in = in || lo == c
	}
	return p[1:], in != negated
}

func posixClass(name string, c byte) (member, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return c > ' ' && c < 0x7f, true
	case "lower":
		return lower, true
	case "print":
		return c >= ' ' && c < 0x7f, true
	case "punct":
		return c > ' ' && c < 0x7f && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
