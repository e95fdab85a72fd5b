package ignore

import "strings"

// The patterns are in repositories that may come from strangers, so the cost of a match must be
// bounded. Here it is proportional to pattern × name. Only "**" between slashes crosses a slash, so
// pattern and name are compared component by component. Within a component, and among the
// components, only the last star needs backtracking. If an earlier star could match more text, the
// last star can match that text as well.

// part is the part of a pattern that matches one component of a name, or a "**".
type part struct {
	text string // the component's exact text, if ops is nil
	ops  []op
	sets []set // the classes in ops
	many bool  // "**": any number of components
	some bool  // for "**": at least one component
}

// op is one element of a component's pattern. A value below 256 matches the byte with that value.
// The other values are the following constants.
type op uint16

const (
	anyByte op = 256 + iota
	star
	firstSet // this value and above: sets[op-firstSet]
)

// maxOps bounds the ops of a component. No name is that long.
const maxOps = 8192

type set [4]uint64

func (s *set) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// compile parses a pattern in the syntax of git's wildmatch with WM_PATHNAME. ok is false if the
// pattern cannot match any name.
func compile(p string) (parts []part, ok bool) {
	var at part // the part being read
	plain := true
	text := make([]byte, 0, len(p))
	begins := true // a component begins here
	tooLong := false
	end := func() {
		if plain {
			at.text, at.ops = string(text), nil
		}
		parts = append(parts, at)
		at, plain = part{}, true
		text, begins = text[:0], true
	}
	put := func(o op) {
		tooLong = tooLong || len(at.ops) == maxOps
		at.ops = append(at.ops, o)
		if o < 256 {
			text = append(text, byte(o))
		} else {
			plain = false
		}
	}
	for p != "" && !tooLong {
		if begins {
			// Use plain text, which most components are, without copying it.
			n := 0
			for n < len(p) && p[n] != '/' && !special[p[n]] {
				n++
			}
			if n == len(p) {
				return append(parts, part{text: p}), true
			}
			if p[n] == '/' {
				parts = append(parts, part{text: p[:n]})
				p = p[n+1:]
				continue
			}
		}
		c := p[0]
		p = p[1:]
		first := begins
		begins = false
		switch c {
		case '/':
			end()
		case '*':
			n := len(p)
			p = strings.TrimLeft(p, "*")
			// In git, "**" matches zero components only before a plain slash.
			some := p == "" || strings.HasPrefix(p, `\/`)
			if first && len(p) < n && (some || p[0] == '/') {
				parts = append(parts, part{many: true, some: some})
				if p == "" {
					return parts, true
				}
				p = strings.TrimPrefix(strings.TrimPrefix(p, `\`), "/")
				begins = true
				continue
			}
			if len(at.ops) == 0 || at.ops[len(at.ops)-1] != star {
				put(star)
			}
		case '?':
			put(anyByte)
		case '[':
			var s set
			s, p, ok = class(p)
			if !ok {
				return nil, false
			}
			at.sets = append(at.sets, s)
			put(firstSet + op(len(at.sets)-1))
		case '\\':
			if p == "" {
				return nil, false
			}
			c, p = p[0], p[1:]
			if c == '/' {
				end()
			} else {
				put(op(c))
			}
		default:
			put(op(c))
		}
	}
	end()
	return parts, !tooLong
}

// match reports whether the parts match a whole name.
func match(parts []part, name string) bool {
	// The first byte, the last byte or the last component rules out nearly every name.
	first, last := &parts[0], &parts[len(parts)-1]
	switch {
	case !first.opens(name), !last.ends(name):
		return false
	case last.many:
	case len(parts) == 1:
		return strings.IndexByte(name, '/') < 0 && last.match(name)
	case !last.match(name[strings.LastIndexByte(name, '/')+1:]):
		return false
	}
	// at is the offset of the next component, or len(name)+1 if there is none.
	at, i := 0, 0
	retryAt, retry := 0, -1 // where the parts after the last "**" were last tried, and their index
	for {
		switch {
		case i == len(parts):
			if at > len(name) {
				return true
			}
		case at > len(name):
			return false
		case parts[i].many:
			if parts[i].some {
				if i == len(parts)-1 {
					return true
				}
				at = nextComponent(name, at)
			}
			i++
			retryAt, retry = place(parts[i:], name, at), i
			at = retryAt
			continue
		default:
			next := nextComponent(name, at)
			if parts[i].match(name[at : next-1]) {
				at = next
				i++
				continue
			}
		}
		if retry < 0 || retryAt > len(name) {
			return false
		}
		retryAt = place(parts[retry:], name, nextComponent(name, retryAt))
		at, i = retryAt, retry
	}
}

// opens reports whether the part can match a name's beginning, judging by the first byte.
func (p *part) opens(name string) bool {
	return len(p.ops) == 0 || p.ops[0] == star || name != "" && p.takes(p.ops[0], name[0])
}

// ends reports whether the part can match a name's end, judging by the last byte.
func (p *part) ends(name string) bool {
	n := len(p.ops) - 1
	return n < 0 || p.ops[n] == star || name != "" && p.takes(p.ops[n], name[len(name)-1])
}

// takes reports whether an op other than a star matches a byte.
func (p *part) takes(o op, c byte) bool {
	return o == op(c) || o == anyByte || o >= firstSet && p.sets[o-firstSet].has(c)
}

// place returns the offset of the first component at or after the offset at where parts, which
// follow a "**", may match. It returns an offset beyond the name if there is no such component.
func place(parts []part, name string, at int) int {
	if len(parts) == 0 || parts[0].many || parts[0].ops != nil {
		return at
	}
	text := parts[0].text
	for at <= len(name) {
		n := strings.Index(name[at:], text)
		if n < 0 {
			break
		}
		begin, end := at+n, at+n+len(text)
		if (n == 0 || name[begin-1] == '/') && (end == len(name) || name[end] == '/') {
			return begin
		}
		at = nextComponent(name, begin)
	}
	return len(name) + 1
}

// nextComponent returns the offset of the component after the one at this offset.
func nextComponent(name string, at int) int {
	if n := strings.IndexByte(name[at:], '/'); n >= 0 {
		return at + n + 1
	}
	return len(name) + 1
}

// match reports whether the part matches a component of a name.
func (p *part) match(s string) bool {
	if p.ops == nil {
		return s == p.text
	}
	at, i := 0, 0
	retryAt, retry := 0, -1 // where the ops after the last star were last tried, and their index
	for {
		if i < len(p.ops) {
			o := p.ops[i]
			if o == star {
				i++
				if i == len(p.ops) {
					return true
				}
				retryAt, retry = at, i
				continue
			}
			if at == len(s) {
				return false
			}
			if p.takes(o, s[at]) {
				at++
				i++
				continue
			}
		} else if at == len(s) {
			return true
		}
		if retry < 0 {
			return false
		}
		retryAt++
		at, i = retryAt, retry
	}
}

// class parses a bracket expression. p begins after the opening bracket, and rest after the closing
// one. ok is false, and nothing matches, if the expression does not end or contains an unknown
// character class.
func class(p string) (s set, rest string, ok bool) {
	negated := false
	if p != "" && (p[0] == '!' || p[0] == '^') {
		negated = true
		p = p[1:]
	}
	plain := 0 // len(p) at the last ']' found in search of ":]"
	for first := true; ; first = false {
		if p == "" {
			return s, "", false
		}
		if p[0] == ']' && !first {
			break
		}
		if strings.HasPrefix(p, "[:") && (plain == 0 || len(p) < plain) {
			end := strings.IndexByte(p, ']')
			if end < 0 {
				return s, "", false
			}
			if end >= 3 && p[end-1] == ':' {
				if !posixClass(p[2:end-1], &s) {
					return s, "", false
				}
				p = p[end+1:]
				continue
			}
			plain = len(p) - end // another search before this bracket would find it again
			s.add('[')
			p = p[1:]
			continue
		}
		lo := p[0]
		p = p[1:]
		if lo == '\\' {
			if p == "" {
				return s, "", false
			}
			lo, p = p[0], p[1:]
		}
		if len(p) > 1 && p[0] == '-' && p[1] != ']' {
			hi := p[1]
			p = p[2:]
			if hi == '\\' {
				if p == "" {
					return s, "", false
				}
				hi, p = p[0], p[1:]
			}
			s.add(lo) // git also adds the start of a range that goes backwards
			for c := int(lo); c <= int(hi); c++ {
				s.add(byte(c))
			}
			continue
		}
		s.add(lo)
	}
	if negated {
		for i := range s {
			s[i] = ^s[i]
		}
	}
	return s, p[1:], true
}

// posixClass adds the characters of [:name:]. It returns false if there is no such class.
func posixClass(name string, s *set) bool {
	ranges, ok := posixClasses[name]
	for i := 0; i < len(ranges); i += 2 {
		for c := ranges[i]; c <= ranges[i+1]; c++ {
			s.add(c)
		}
	}
	return ok
}

// posixClasses lists pairs of first and last characters.
var posixClasses = map[string]string{
	"alnum":  "09AZaz",
	"alpha":  "AZaz",
	"blank":  "\t\t  ",
	"cntrl":  "\x00\x1f\x7f\x7f",
	"digit":  "09",
	"graph":  "!~",
	"lower":  "az",
	"print":  " ~",
	"punct":  "!/:@[`{~",
	"space":  "\t\r  ",
	"upper":  "AZ",
	"xdigit": "09AFaf",
}
