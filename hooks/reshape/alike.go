package reshape

import (
	"strings"
)

// Consecutive lines that begin alike, and perhaps end alike, become a group. The group's first line
// has the shared text, with … for the rest. The rest of each line follows, indented by two blanks:
//
//	warning: in the working copy of 'src/…', LF will be replaced by CRLF the next time Git touches it
//	  auth/login.ts
//	  auth/token.ts
//	  main.ts
//
// The indented lines may contain another group. Lines are cut only at punctuation, such as after a
// directory or a name with a colon, never within a sentence or a column. Source lines in the output
// of a search or of git blame are not cut, because agents quote whole lines when they edit a file.

const (
	gap       = "…"
	indent    = "  "
	minGroup  = 2   // lines
	minShared = 8   // bytes of head and tail without the blanks around them
	minTail   = 12  // bytes of a tail
	minGain   = 40  // bytes that a group must save
	minAlike  = 200 // bytes that all groups together must save
	alikeNote = "each indented line stands for the line above with " + gap + " replaced by it"
)

func alike(c *command, text string) (string, string, bool) {
	if strings.Contains(text, gap) || strings.ContainsAny(text, "\r\x1b") {
		return "", "", false
	}
	g := grouping{c: c, matches: c.any(searches), blame: c.any(blames)}
	lines, last := splitLines(text)
	out := joinLines(g.group(lines), last)
	return out, alikeNote, len(text)-len(out) >= minAlike
}

// grouping groups lines. Its fields say where lines may be cut.
type grouping struct {
	c       *command
	matches bool // the lines are matches of a search
	blame   bool // the lines end in source
}

func (g grouping) group(lines []string) (out []string) {
	for len(lines) > 0 {
		n, head, tail := g.first(lines)
		if n < minGroup {
			out = append(out, lines[0])
			lines = lines[1:]
			continue
		}
		var inner []string
		for _, l := range lines[:n] {
			inner = append(inner, l[len(head):len(l)-len(tail)])
		}
		out = append(out, head+gap+tail)
		for _, l := range g.group(inner) {
			out = append(out, indentOf(head)+indent+l)
		}
		lines = lines[n:]
	}
	return out
}

// first returns how many of the first lines make the group that saves most, and their shared head
// and tail. n is 0 if no group is worth it.
func (g grouping) first(lines []string) (n int, head, tail string) {
	most := minGain
	begin, end, form := lines[0], lines[0], withoutDigits(lines[0])
	tails := false // false while only numbers differ, because a bare column of numbers is unreadable
	var h, t string
	for i, l := range lines {
		begin, end = begin[:sharedHead(begin, l)], end[len(end)-sharedTail(end, l):]
		tails = tails || g.matches || withoutDigits(l) != form
		if !g.member(l) {
			break
		}
		check := lines[i : i+1]
		if newHead, newTail := g.cut(l, begin, end, tails); newHead != h || newTail != t {
			h, t = newHead, newTail
			check = lines[:i+1]
		}
		if !differ(check, h, t) {
			t = ""
		}
		if i > 0 && !differ(check, h, t) || len(strings.TrimSpace(h))+len(strings.TrimSpace(t)) < minShared {
			break
		}
		inner := indentOf(h) + indent
		gain := (i+1)*(len(h)+len(t)-len(inner)) - len(h+gap+t+"\n")
		// The group cannot end here if the next line is indented in the same way, because it would
		// look like part of the group.
		ends := i+1 == len(lines) || !strings.HasPrefix(lines[i+1], inner)
		if i+1 >= minGroup && ends && gain > most {
			n, most = i+1, gain
			head, tail = h, t
		}
	}
	return n, head, tail
}

// differ reports whether each line has its own text between head and tail. A text that ends in a
// blank does not count, because it is part of a column.
func differ(lines []string, head, tail string) bool {
	for _, l := range lines {
		if len(head)+len(tail) >= len(l) {
			return false
		}
		between := l[len(head) : len(l)-len(tail)]
		if strings.TrimSpace(between) == "" || tail != "" && strings.HasSuffix(between, " ") {
			return false
		}
	}
	return true
}

func indentOf(l string) string { return l[:len(l)-len(strings.TrimLeft(l, " \t"))] }

func withoutDigits(l string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, l)
}

// member reports whether a line may belong to a group. In search results, headings and the lines
// under them may not.
func (g grouping) member(l string) bool {
	found := true
	if g.matches {
		_, _, found = g.c.pathOf(l)
	}
	return found && !strings.Contains(l, Mark)
}

// cut returns the head and tail of a line that a group may share. begin and end are the texts that
// the line shares with the lines before it.
func (g grouping) cut(l, begin, end string, tails bool) (head, tail string) {
	switch {
	case g.matches:
		_, rest, _ := g.c.pathOf(l)
		if g.c.numbered {
			rest = rest[digits(rest):]
		} else {
			rest = ":" + rest
		}
		if len(rest) >= minTail && strings.HasSuffix(end, rest) {
			tail = rest
		}
		return begin[:strings.LastIndexByte(begin, '/')+1], tail
	case g.blame:
		return begin[:strings.LastIndexByte(begin, ' ')+1], ""
	case tails:
		tail = cutTail(end)
	}
	return cutHead(begin), tail
}

// cutHead shortens a shared beginning so that it ends with punctuation and the blanks after it, or
// before a bracket.
func cutHead(begin string) string {
	for at := len(begin); at > 0; at-- {
		word := strings.TrimRight(begin[:at], " ")
		if word == "" {
			break
		}
		c, blanks := word[len(word)-1], len(word) < at
		switch {
		case c == ':' && len(word) > 1 && digits(word[len(word)-2:]) == 0, // not the colon of a time such as 12:30
			!blanks && strings.IndexByte("/\"'`\t", c) >= 0,
			blanks && strings.IndexByte("|>])", c) >= 0,
			!blanks && at < len(begin) && strings.IndexByte("([", begin[at]) >= 0:
			return begin[:at]
		}
	}
	return ""
}

// cutTail shortens a shared end so that it begins with punctuation, or with a blank before
// punctuation.
func cutTail(end string) string {
	for at := 0; len(end)-at >= minTail; at++ {
		blank := end[at] == ' ' && (at == 0 || end[at-1] != ' ')
		punctuation := strings.IndexByte("\"'`,;", end[at]) >= 0 || strings.HasPrefix(end[at:], ": ")
		if punctuation || blank && strings.IndexByte("-|([", end[at+1]) >= 0 {
			return end[at:]
		}
	}
	return ""
}

func sharedHead(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func sharedTail(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// unalike is the inverse of alike.
func unalike(text string) (string, bool) {
	lines, last := splitLines(text)
	return joinLines(ungrouped(lines), last), true
}

func ungrouped(lines []string) (out []string) {
	for i := 0; i < len(lines); {
		head, tail, grouped := strings.Cut(lines[i], gap)
		i++
		if !grouped {
			out = append(out, head)
			continue
		}
		var differ []string
		for inner := indentOf(head) + indent; i < len(lines) && strings.HasPrefix(lines[i], inner); i++ {
			differ = append(differ, lines[i][len(inner):])
		}
		for _, l := range ungrouped(differ) {
			out = append(out, head+l+tail)
		}
	}
	return out
}
