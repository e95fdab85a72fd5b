package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Agents read several files with one command, such as "cat a b" or "head -5 a && cat -n b". Each
// part of the output that only shows a file is shortened; the others stay. The client does not
// report what each part printed, so it is computed from the files and compared with the output. If
// a byte differs, nothing is changed.

// Part is what one command of a command line printed.
type Part struct {
	Show shown  // if Kind is PartShow: lines of a file
	Text string // if Kind is partText: a text in the command line itself
	Kind partKind
}

type partKind int

const (
	PartUnknown partKind = iota
	partText
	PartShow
)

const (
	maxParts    = 16
	maxPartFile = 1 << 20 // bytes of a file that a hook reads
)

// ParseParts splits the output of a command line into parts. It returns false if the line shows no
// file, if ParseShow understands it, or if its unknown parts are not adjacent.
func ParseParts(command string) (parts []Part, ok bool) {
	if _, single := ParseShow(command); single {
		return nil, false
	}
	dir := ""
	for _, s := range statements(command) {
		if !flatten(s, &dir, &parts) {
			return nil, false
		}
	}
	shows, gaps := 0, 0
	for i, p := range parts {
		if p.Kind == PartShow {
			shows++
		}
		if p.Kind == PartUnknown && (i == 0 || parts[i-1].Kind != PartUnknown) {
			gaps++
		}
	}
	return parts, shows > 0 && gaps <= 1 && len(parts) <= maxParts
}

// flatten appends the parts that a statement prints. dir is the directory in which it runs, as far
// as known. It returns false if the statement is not understood.
func flatten(s *syntax.Stmt, dir *string, parts *[]Part) bool {
	if s.Background || s.Coprocess || s.Negated {
		return false
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.AndStmt && len(s.Redirs) == 0 {
		return flatten(b.X, dir, parts) && flatten(b.Y, dir, parts)
	}
	if args, ok := literals(s); ok {
		switch {
		case args[0] == "cd":
			if len(args) != 2 || strings.HasPrefix(args[1], "-") {
				return false
			}
			if filepath.IsAbs(args[1]) {
				*dir = args[1]
			} else {
				*dir = filepath.Join(*dir, args[1])
			}
			return true
		case args[0] == "echo" && (len(args) == 1 || !strings.HasPrefix(args[1], "-")) && !strings.Contains(strings.Join(args, ""), `\`):
			*parts = append(*parts, Part{Kind: partText, Text: strings.Join(args[1:], " ") + "\n"})
			return true
		}
	}
	if shows, ok := showsOf(s); ok {
		for _, p := range shows {
			p.Show.dir = *dir
			*parts = append(*parts, p)
		}
		return true
	}
	switch s.Cmd.(type) {
	case *syntax.CallExpr, *syntax.BinaryCmd:
		if changesDir(s) {
			return false
		}
		*parts = append(*parts, Part{})
		return true
	}
	return false
}

// changesDir reports whether a statement may change the directory of later ones.
func changesDir(s *syntax.Stmt) (found bool) {
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch name, _ := literal(c.Args[0]); name {
			case "cd", "pushd", "popd", "exec", "source", ".", "eval", "exit", "":
				found = true
			}
		}
		return !found
	})
	return found
}

// showsOf returns the files that a statement shows, if showOf understands it or it is cat of
// several files.
func showsOf(s *syntax.Stmt) ([]Part, bool) {
	if one, ok := showOf(s); ok {
		return []Part{{Kind: PartShow, Show: one}}, true
	}
	args, ok := literals(s)
	if !ok || len(args) < 2 || args[0] != "cat" {
		return nil, false
	}
	var parts []Part
	for _, name := range args[1:] {
		one, ok := showArgs([]string{"cat", name})
		if !ok {
			return nil, false
		}
		parts = append(parts, Part{Kind: PartShow, Show: one})
	}
	return parts, true
}

// Lines reads a part's lines from the file as it is now. raw is their text, printed is what the
// command prints for them, first is the first line's number.
func (p Part) Lines(cwd string) (raw, printed string, first, count int, ok bool) {
	name := p.Show.Path(cwd)
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxPartFile {
		return "", "", 0, 0, false
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) == 0 || !utf8.Valid(b) {
		return "", "", 0, 0, false
	}
	all := strings.SplitAfter(string(b), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	first, last := p.Show.First, len(all)
	if p.Show.Last > 0 {
		last = min(last, p.Show.Last)
	}
	if p.Show.Tail > 0 {
		first = max(1, len(all)-p.Show.Tail+1)
	}
	if first > last {
		return "", "", 0, 0, false
	}
	raw = strings.Join(all[first-1:last], "")
	printed = raw
	if p.Show.Numbered {
		printed = CatNumbers(raw, first)
	}
	return raw, printed, first, last - first + 1, true
}

// CatNumbers numbers lines like cat -n.
func CatNumbers(text string, first int) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		fmt.Fprintf(&b, "%6d\t%s", first, l)
		first++
	}
	return b.String()
}
