package reshape

import (
	"strings"
)

// Example shows what a rule makes of a small output. The rule is worthwhile only for a longer
// output.
type Example struct {
	Rule           Rule
	Command        string
	Printed, Shown string
}

// examples returns an Example of each rule, made by the rule itself.
func examples() (out []Example) {
	commands := map[Rule][2]string{
		Terminal: {"npm install", "\x1b[32mdone\x1b[0m\n"},
		Progress: {"npm install", "fetching 10%\rfetching 50%\rfetching 100%\n"},
		Search:   {"rg -n go src", "src/a.go:1:go a()\nsrc/a.go:2:go b()\nsrc/b.go:3:go c()\nsrc/b.go:4:go d()\n"},
		Tree:     {"find src", strings.Join([]string{"src/x/a", "src/x/b", "src/x/c", "src/x/d", "src/y/a", "src/y/b", "src/y/c", "src/y/d"}, "\n") + "\n"},
		Tests:    {"go test -v .", strings.Repeat("--- PASS: TestSum (0.00s)\n", 5) + "PASS\n"},
		Frames:   {"pytest", "  File \"/usr/lib/python3.11/a.py\", line 1, in f\n  File \"/usr/lib/python3.11/a.py\", line 2, in g\n  File \"/usr/lib/python3.11/a.py\", line 3, in h\nValueError\n"},
		Hints:    {"git status", "Changes not staged for commit:\n  (use \"git add <file>...\" to update what will be committed)\n\tmodified:   a\n"},
		Repeats:  {"make", strings.Repeat("warning: the same thing as before, once more\n", 6)},
		Alike:    {"git commit", strings.Repeat(" create mode 100644 src/auth/login.ts\n create mode 100644 src/auth/token.ts\n", 6)},
		Numbers:  {"make", "Compiling part 1 of 12 of this program\nCompiling part 2 of 12 of this program\nCompiling part 3 of 12 of this program\nCompiling part 4 of 12 of this program\nCompiling part 5 of 12 of this program\nCompiling part 6 of 12 of this program\nCompiling part 7 of 12 of this program\nCompiling part 8 of 12 of this program\nCompiling part 9 of 12 of this program\nCompiling part 10 of 12 of this program\n"},
	}
	for _, rule := range table {
		e := commands[rule.name]
		c, ok := parse(e[0])
		if !ok {
			continue
		}
		shown, _, ok := rule.do(c, e[1])
		if ok {
			out = append(out, Example{rule.name, e[0], e[1], shown})
		}
	}
	return out
}
