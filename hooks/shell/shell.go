package shell

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the longest command line that is parsed. Longer ones do more than show a file.
const maxCommand = 4096

// shown is the part of one file that a command prints.
type shown struct {
	dir         string // DIR of a leading "cd DIR &&", or ""
	file        string
	First, Last int  // first and last line; Last 0 means to the end of the file
	Tail        int  // if above 0, the last Tail lines
	Numbered    bool // with line numbers, as cat -n prints them
}

// Path returns the path of the file. cwd is the shell's working directory.
func (s shown) Path(cwd string) string {
	switch {
	case filepath.IsAbs(s.file):
		return s.file
	case filepath.IsAbs(s.dir):
		return filepath.Join(s.dir, s.file)
	}
	return filepath.Join(cwd, s.dir, s.file)
}

// statements returns the statements of a command line, or none if it is long or not valid.
func statements(command string) []*syntax.Stmt {
	if len(command) > maxCommand {
		return nil
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil
	}
	return f.Stmts
}

// ParseShow recognises a command that only shows lines of one file: cat, head, tail or sed -n with
// literal arguments, alone, after "cd DIR &&", or piped into each other. For other commands see
// ParseParts.
func ParseShow(command string) (shown, bool) {
	stmts := statements(command)
	if len(stmts) != 1 {
		return shown{}, false
	}
	dir := ""
	stmt := stmts[0]
	if !plainStmt(stmt) {
		return shown{}, false
	}
	if b, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && b.Op != syntax.Pipe {
		cd, _ := literals(b.X)
		if b.Op != syntax.AndStmt || len(cd) != 2 || cd[0] != "cd" || strings.HasPrefix(cd[1], "-") {
			return shown{}, false
		}
		dir, stmt = cd[1], b.Y
	}
	s, ok := showOf(stmt)
	s.dir = dir
	return s, ok && !s.Numbered
}

// showOf is ParseShow for one statement, and also accepts line numbers.
func showOf(stmt *syntax.Stmt) (s shown, ok bool) {
	if b, pipe := stmt.Cmd.(*syntax.BinaryCmd); pipe && b.Op == syntax.Pipe && plainStmt(stmt) {
		s, ok = showOf(b.X)
		if !ok {
			return shown{}, false
		}
		args, ok := literals(b.Y)
		if !ok || len(args) == 0 {
			return shown{}, false
		}
		const input = "\x00" // stands for the filter's input, which has no name; no word contains it
		f, ok := showArgs(append(args, input))
		if !ok || f.file != input || f.Numbered {
			return shown{}, false
		}
		return s.through(f)
	}
	args, ok := literals(stmt)
	if !ok || len(args) < 2 {
		return shown{}, false
	}
	return showArgs(args)
}

// through returns what is printed if the output of s is piped through f.
func (s shown) through(f shown) (shown, bool) {
	switch {
	case s.Tail > 0:
		return shown{}, f.Tail == 0 && f.First == 1 && f.Last == 0
	case f.Tail > 0 && s.Last == 0 && s.First == 1:
		s.First, s.Tail = 0, f.Tail
	case f.Tail > 0 && s.Last > 0:
		s.First = max(s.First, s.Last-f.Tail+1)
	case f.Tail > 0:
		return shown{}, false
	default:
		if f.Last > 0 && (s.Last == 0 || s.First+f.Last-1 < s.Last) {
			s.Last = s.First + f.Last - 1
		}
		s.First += f.First - 1
	}
	return s, s.Last == 0 || s.First <= s.Last
}

// showArgs parses the words of a command that shows one file.
func showArgs(args []string) (s shown, ok bool) {
	switch args[0] {
	case "cat", "nl":
		s, ok = parseCat(args)
	case "head":
		s, ok = parseHead(args[1:])
	case "tail":
		s, ok = parseTail(args[1:])
	case "sed":
		s, ok = parseSed(args[1:])
	default:
		return shown{}, false
	}
	return s, ok && s.file != "" && s.file != "-" && !strings.HasPrefix(s.file, "/dev/")
}

// plainStmt reports whether a statement runs in the foreground with its output not redirected.
// Errors may be discarded, or go to the output, which then does not match the file.
func plainStmt(s *syntax.Stmt) bool {
	if s == nil || s.Negated || s.Background || s.Coprocess {
		return false
	}
	for _, r := range s.Redirs {
		to, ok := "", false
		if r.Word != nil {
			to, ok = literal(r.Word)
		}
		away := r.Op == syntax.RdrOut && to == "/dev/null" || r.Op == syntax.DplOut && to == "1"
		if !ok || r.N == nil || r.N.Value != "2" || !away {
			return false
		}
	}
	return true
}

// literals returns the words of a simple command, or false if any has an expansion.
func literals(s *syntax.Stmt) ([]string, bool) {
	if !plainStmt(s) {
		return nil, false
	}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Assigns) > 0 || len(c.Args) == 0 {
		return nil, false
	}
	var out []string
	for _, w := range c.Args {
		t, ok := literal(w)
		if !ok {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// literal returns the text of a word, or false if a shell would expand it.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, `\*?[]{}`) || i == 0 && strings.HasPrefix(p.Value, "~") {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(l.Value, `\`) {
					return "", false
				}
				b.WriteString(l.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// oneFile returns the only operand of args, which may begin with "--".
func oneFile(args []string) (string, bool) {
	if len(args) == 2 && args[0] == "--" {
		return args[1], true
	}
	if len(args) == 1 && !strings.HasPrefix(args[0], "-") {
		return args[0], true
	}
	return "", false
}

// parseCat parses the words of cat and nl. nl without -ba does not number empty lines, but
// parseCat assumes that it does. If a file has empty lines, the computed output then differs from the
// real one, so nothing is changed.
func parseCat(args []string) (shown, bool) {
	s := shown{First: 1, Numbered: args[0] == "nl"}
	options := map[string][]string{"cat": {"-n", "--number"}, "nl": {"-ba", "-b", "--body-numbering=a"}}
	rest := args[1:]
	if len(rest) > 0 && slices.Contains(options[args[0]], rest[0]) {
		s.Numbered = true
		if rest[0] == "-b" {
			if len(rest) < 2 || rest[1] != "a" {
				return shown{}, false
			}
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	f, ok := oneFile(rest)
	s.file = f
	return s, ok
}

func parseHead(args []string) (shown, bool) {
	n, rest, ok := countOption(args)
	if !ok || strings.HasPrefix(n, "+") {
		return shown{}, false
	}
	count, err := strconv.Atoi(n)
	f, ok := oneFile(rest)
	return shown{file: f, First: 1, Last: count}, ok && err == nil && count > 0
}

func parseTail(args []string) (shown, bool) {
	n, rest, ok := countOption(args)
	if !ok {
		return shown{}, false
	}
	f, ok := oneFile(rest)
	from, fromLine := strings.CutPrefix(n, "+")
	count, err := strconv.Atoi(from)
	if !ok || err != nil || count <= 0 {
		return shown{}, false
	}
	if fromLine {
		return shown{file: f, First: count}, true
	}
	return shown{file: f, Tail: count}, true
}

// countOption reads -n N, -nN, --lines=N or -N. Without any of these, n is "10".
func countOption(args []string) (n string, rest []string, ok bool) {
	if len(args) == 0 {
		return "", nil, false
	}
	a := args[0]
	switch {
	case a == "-n" || a == "--lines":
		if len(args) < 2 {
			return "", nil, false
		}
		n, rest = args[1], args[2:]
	case strings.HasPrefix(a, "--lines="):
		n, rest = strings.TrimPrefix(a, "--lines="), args[1:]
	case strings.HasPrefix(a, "-n"):
		n, rest = a[2:], args[1:]
	case len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9':
		n, rest = a[1:], args[1:]
	default:
		return "10", args, true
	}
	for i, r := range n {
		if (r < '0' || r > '9') && !(i == 0 && r == '+') {
			return "", nil, false // "-5" (all but the last 5), "1k", …
		}
	}
	return n, rest, n != "" && len(n) < 9
}

// parseSed parses the scripts 'Ap', 'A,Bp', 'A,+Np' and 'A,$p' of sed -n.
func parseSed(args []string) (shown, bool) {
	if len(args) < 3 || args[0] != "-n" {
		return shown{}, false
	}
	script, rest := args[1], args[2:]
	if script == "-e" && len(rest) > 1 {
		script, rest = rest[0], rest[1:]
	}
	f, ok := oneFile(rest)
	script, print := strings.CutSuffix(script, "p")
	a, b, isRange := strings.Cut(script, ",")
	first, err := strconv.ParseUint(a, 10, 31)
	if !ok || !print || err != nil || first < 1 {
		return shown{}, false
	}
	s := shown{file: f, First: int(first)}
	switch plus, more := strings.CutPrefix(b, "+"); {
	case !isRange:
		s.Last = s.First
	case b == "$":
	case more:
		n, err := strconv.ParseUint(plus, 10, 31)
		if err != nil {
			return shown{}, false
		}
		s.Last = s.First + int(n)
	default:
		s.Last, err = strconv.Atoi(b)
		if err != nil || s.Last < 1 {
			return shown{}, false
		}
		s.Last = max(s.Last, s.First) // sed prints at least line A
	}
	return s, true
}
