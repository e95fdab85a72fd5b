package reshape

import (
	"slices"
	"strings"
)

// Search results repeat the path on each line. This rule writes a path once, above its lines, like
// rg --heading:
//
//	src/a.go
//	12:func a() {
//	13-	return
//
// What follows the path is unchanged, except that the mark before a line number is removed. A path
// with only one line is not grouped. All other lines are unchanged.

// searches reports whether a command prints only matches, each with its path and whole line and
// perhaps its line number.
func searches(words []string) bool {
	if words[0] == "matches" {
		return true
	}
	f, tool := searchFlags(words)
	switch tool {
	case "rg":
		return !f.has("clLIo0pqr", "--files", "--count", "--count-matches", "--files-with-matches", "--files-without-match", "--no-filename", "--heading", "--stats", "--pretty", "--passthru", "--replace", "--only-matching", "--type-list", "--vimgrep", "--column", "--byte-offset", "--null", "--version", "--help", "--debug", "--trace", "--multiline") && !f.has("U")
	case "grep":
		many := f.has("rRH", "--recursive", "--dereference-recursive", "--with-filename") || len(f.operands) > 2
		return many && !f.has("clLhoqbTZz", "--count", "--files-with-matches", "--files-without-match", "--no-filename", "--only-matching", "--byte-offset", "--initial-tab", "--null", "--label", "--help", "--version")
	case "git":
		return !f.has("clLhoqpWzO", "--count", "--files-with-matches", "--name-only", "--files-without-match", "--heading", "--break", "--show-function", "--function-context", "--column", "--only-matching", "--null", "--no-index")
	}
	return false
}

// searchFlags reads the words of a search. tool is "" for other commands. The first operand is the
// pattern, unless an option gives it.
func searchFlags(words []string) (f flags, tool string) {
	switch words[0] {
	case "rg":
		return readFlags(words[1:], "efgtTmABCjMEdr", "--regexp", "--file", "--glob", "--iglob", "--type", "--type-not", "--max-count", "--after-context", "--before-context", "--context", "--threads", "--max-columns", "--encoding", "--max-depth", "--replace", "--sort", "--sortr", "--color", "--colors", "--ignore-file", "--max-filesize", "--engine"), "rg"
	case "grep", "egrep", "fgrep":
		return readFlags(words[1:], "efmABCdD", "--regexp", "--file", "--max-count", "--after-context", "--before-context", "--context", "--include", "--exclude", "--exclude-dir"), "grep"
	case "git":
		if len(words) > 1 && words[1] == "grep" {
			return readFlags(words[2:], "efmABCO", "--max-depth", "--threads", "--max-count"), "git"
		}
	}
	return flags{}, ""
}

// searched sets c.numbered and c.roots.
func (c *command) searched() {
	everywhere := false
	for _, words := range c.makers {
		f, tool := searchFlags(words)
		if tool == "" || !searches(words) {
			continue
		}
		c.numbered = c.numbered || f.has("n", "--line-number")
		roots := f.operands
		if !f.has("ef", "--regexp", "--file") && len(roots) > 0 {
			roots = roots[1:]
		}
		if tool == "git" || len(roots) == 0 {
			everywhere = true
		}
		for _, r := range roots {
			if i := strings.IndexAny(r, "*?[{\x00"); i >= 0 {
				r = r[:i]
			} else if r != "." && !strings.HasSuffix(r, "/") {
				c.roots = append(c.roots, r+":", r+"-", r+"/")
				continue
			}
			everywhere = everywhere || r == "" || r == "."
			c.roots = append(c.roots, r)
		}
	}
	if everywhere {
		c.roots = nil
	}
}

// inSearchedPath reports whether a line may begin with the path of a searched file.
func (c *command) inSearchedPath(line string) bool {
	return c.roots == nil || slices.ContainsFunc(c.roots, func(r string) bool { return strings.HasPrefix(line, r) })
}

// pathOf returns the path at the beginning of a match, and the rest.
func (c *command) pathOf(line string) (p, rest string, ok bool) {
	if !c.inSearchedPath(line) || line == "" || line[0] == ' ' || line[0] == '\t' {
		return "", "", false
	}
	for at := 0; ; {
		i := strings.IndexByte(line[at:], ':')
		if i < 0 {
			return "", "", false
		}
		i += at
		p, rest = line[:i], line[i+1:]
		if len(p) > 512 || strings.ContainsAny(p, "\t\r") || strings.Contains(p, ": ") {
			return "", "", false
		}
		if !c.numbered {
			return p, rest, i > 0 && pathLike(p)
		}
		if n := digits(rest); n > 0 && n < len(rest) && rest[n] == ':' {
			return p, rest, i > 0 && pathLike(p)
		}
		at = i + 1
	}
}

func pathLike(p string) bool {
	return !strings.Contains(p, " ") || strings.Contains(p, "/") && !strings.Contains(p, "  ")
}

func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// contextOf is pathOf for a line of context (path-12-text). known are the paths with matches.
func (c *command) contextOf(line string, known map[string]bool) (p, rest string, ok bool) {
	for at := 0; at < len(line) && at < 512; {
		i := strings.IndexByte(line[at:], '-')
		if i < 0 {
			return "", "", false
		}
		i += at
		if known[line[:i]] {
			rest = line[i+1:]
			if n := digits(rest); !c.numbered || n > 0 && n < len(rest) && rest[n] == '-' {
				return line[:i], rest, true
			}
		}
		at = i + 1
	}
	return "", "", false
}

// relativeContext removes root from the paths of context lines. Claude Code makes the paths of
// matches relative. It makes the path of a context line relative only if the line contains a colon.
func (c *command) relativeContext(text, root string) string {
	if root == "" || !strings.Contains(text, root+"/") {
		return text
	}
	lines, last := splitLines(text)
	known := map[string]bool{}
	for _, l := range lines {
		if p, _, ok := c.pathOf(l); ok {
			known[p] = true
		}
	}
	for i, l := range lines {
		rel, ok := strings.CutPrefix(l, root+"/")
		if !ok {
			continue
		}
		if _, _, ok := c.contextOf(rel, known); ok {
			lines[i] = rel
		}
	}
	return joinLines(lines, last)
}

const groupedNote = "lines are grouped by path"

func matches(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	type match struct {
		path, rest string
		mark       byte
	}
	found := make([]match, len(lines))
	known := map[string]bool{}
	fit := 0
	for i, l := range lines {
		if p, rest, ok := c.pathOf(l); ok {
			found[i] = match{p, rest, ':'}
			known[p] = true
			fit++
		}
	}
	full := 0
	for i, l := range lines {
		if l == "" || l == "--" {
			continue
		}
		full++
		if found[i].path == "" {
			if p, rest, ok := c.contextOf(l, known); ok {
				found[i] = match{p, rest, '-'}
				fit++
			}
		}
	}
	if 2*fit < full || fit < 4 {
		return "", "", false // not what the command usually prints
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(lines); {
		m := found[i]
		end := i + 1 // end of the group, without separators after it
		count := 1
		for j := i + 1; m.path != "" && j < len(lines); j++ {
			if found[j].path == m.path {
				end, count = j+1, count+1
			} else if lines[j] != "--" {
				break
			}
		}
		if count < 2 {
			writeLine(&b, lines[i], i == len(lines)-1, last)
			i++
			continue
		}
		b.WriteString(m.path + "\n")
		for ; i < end; i++ {
			l := lines[i]
			if f := found[i]; f.path != "" {
				l = f.rest
				if !c.numbered {
					l = string(f.mark) + l
				}
			}
			writeLine(&b, l, i == len(lines)-1, last)
		}
	}
	return b.String(), groupedNote, true
}

func writeLine(b *strings.Builder, l string, final, ended bool) {
	b.WriteString(l)
	if !final || ended {
		b.WriteByte('\n')
	}
}

// ungroup is the inverse of matches. The line before a group's lines is a heading.
func ungroup(text string) (string, bool) {
	lines, last := splitLines(text)
	var b strings.Builder
	b.Grow(2 * len(text))
	path := ""
	for i, l := range lines {
		final := i == len(lines)-1
		mark, rest, in := groupLine(l)
		switch {
		case l == "--" && (path == "" || final || !member(lines[i+1:])):
			path = ""
			writeLine(&b, l, final, last)
		case l == "--":
			writeLine(&b, l, final, last)
		case in && path != "":
			writeLine(&b, path+mark+rest, final, last)
		case !final && member(lines[i+1:i+2]):
			path = l
		default:
			path = ""
			writeLine(&b, l, final, last)
		}
	}
	return b.String(), true
}

// member reports whether the first line, not counting separators, is a line of a group.
func member(lines []string) bool {
	for _, l := range lines {
		if l != "--" {
			_, _, in := groupLine(l)
			return in
		}
	}
	return false
}

// groupLine splits a group's line: "12:text", "12-text", ":text" or "-text".
func groupLine(l string) (mark, rest string, ok bool) {
	n := digits(l)
	if n >= len(l) || l[n] != ':' && l[n] != '-' {
		return "", "", false
	}
	if n == 0 {
		return l[:1], l[1:], true
	}
	return l[n : n+1], l, true
}
