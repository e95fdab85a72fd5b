package reshape

import (
	"fmt"
	"strconv"
	"strings"
)

// ls -l names owner and group on each line. Where all have the same, they are said
// once, and the padding of the sizes goes:
//
//	-rw-r--r-- 1234 Nov 23 02:38 doc.go
//	drwxr-xr-x 5: 4096 Nov 23 02:38 shell
//
// A number of links that is not 1 stands before a colon.

func listsLong(words []string) bool {
	if words[0] != "ls" {
		return false
	}
	f := readFlags(words[1:], "IwT", "--ignore", "--width", "--hide")
	return f.has("l") && !f.has("ZsigoGnb", "--context", "--size", "--inode", "--author", "--no-group", "--quoting-style", "--escape", "--zero", "--dired", "--time-style")
}

type longLine struct {
	mode, links, owner, group, size, rest string
}

// readLong cuts up a line of ls -l.
func readLong(l string) (e longLine, ok bool) {
	if len(l) < 11 || !strings.ContainsRune("-dlpscb", rune(l[0])) || strings.Trim(l[1:10], "rwxsStT-") != "" {
		return e, false
	}
	for _, p := range []*string{&e.mode, &e.links, &e.owner, &e.group, &e.size} {
		*p, l, ok = strings.Cut(l, " ")
		if !ok {
			return e, false
		}
		if p != &e.size {
			l = strings.TrimLeft(l, " ")
		}
	}
	e.rest = l
	return e, digits(e.links) == len(e.links) && e.links != "" && digits(e.size) > 0
}

func columns(c *command, text string) (string, string, bool) {
	lines, last := splitLines(text)
	var owner, group string
	n := 0
	for _, l := range lines {
		e, ok := readLong(l)
		if !ok {
			continue
		}
		if n++; n == 1 {
			owner, group = e.owner, e.group
		}
		if e.owner != owner || e.group != group {
			return "", "", false
		}
	}
	if n < 4 {
		return "", "", false
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l
		if e, ok := readLong(l); ok {
			links := ""
			if e.links != "1" {
				links = e.links + ": "
			}
			out[i] = e.mode + " " + links + e.size + " " + e.rest
		}
	}
	return fmt.Sprintf(Mark+"owner %s, group %s, 1 link unless given\n", owner, group) + joinLines(out, last), "", true
}

// uncolumns is the inverse of columns: ls pads numbers to the longest of their
// directory.
func uncolumns(text string) (string, bool) {
	head, text, ok := strings.Cut(text, "\n")
	owner, head, ok2 := strings.Cut(strings.TrimPrefix(head, Mark+"owner "), ", group ")
	group, ok3 := strings.CutSuffix(head, ", 1 link unless given")
	if !ok || !ok2 || !ok3 {
		return "", false
	}
	lines, last := splitLines(text)
	for i := 0; i < len(lines); i++ {
		var block []longLine
		wl, ws := 0, 0
		for j := i; j < len(lines); j++ {
			e, ok := readShort(lines[j])
			if !ok {
				break
			}
			wl, ws = max(wl, len(e.links)), max(ws, len(e.size))
			block = append(block, e)
		}
		for k, e := range block {
			lines[i+k] = fmt.Sprintf("%s %*s %s %s %*s %s", e.mode, wl, e.links, owner, group, ws, e.size, e.rest)
		}
		i += len(block)
	}
	return joinLines(lines, last), true
}

func readShort(l string) (e longLine, ok bool) {
	if len(l) < 11 || !strings.ContainsRune("-dlpscb", rune(l[0])) || strings.Trim(l[1:10], "rwxsStT-") != "" {
		return e, false
	}
	e.mode, l, ok = strings.Cut(l, " ")
	if !ok {
		return e, false
	}
	e.links = "1"
	if links, rest, ok := strings.Cut(l, ": "); ok {
		if _, err := strconv.Atoi(links); err == nil {
			e.links, l = links, rest
		}
	}
	e.size, e.rest, ok = strings.Cut(l, " ")
	return e, ok && digits(e.size) > 0
}
