package reshape

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"cachebro/store/leaf/text"
)

// Mark begins every inserted sentence.
const Mark = "cachebro: "

const (
	// A result must be shorter by at least minSaved bytes and minPart percent, because a text in an
	// unexpected form costs a model attention.
	minSaved = 400
	minPart  = 15
	// MaxText is the length in bytes up to which a text is reshaped. Clients cut texts above 30 kB,
	// and a hook has only milliseconds.
	MaxText = 256 << 10
)

// Rule is a rule's name, as in init --no-reshape=NAME.
type Rule string

// The rules, in the order of their use. All have an inverse, except Terminal and the rules that
// fold.
const (
	Terminal Rule = "terminal" // colour codes
	Progress Rule = "progress" // lines that overwrite each other; folds
	Search   Rule = "search"   // search matches, grouped by path
	Tree     Rule = "tree"     // lists of paths
	Tests    Rule = "tests"    // tests that passed; folds
	Frames   Rule = "frames"   // foreign stack frames; folds
	Hints    Rule = "hints"    // git's hints; folds
	Repeats  Rule = "repeats"  // blocks of lines that occur again
	Numbers  Rule = "numbers"  // lines that count up
	Alike    Rule = "alike"    // lines that begin or end alike
)

// Rules lists all rules.
func Rules() []Rule {
	var out []Rule
	for _, r := range table {
		out = append(out, r.name)
	}
	return out
}

// Folds reports whether a rule leaves out part of the text.
func (r Rule) Folds() bool { return r == Progress || r == Tests || r == Frames || r == Hints }

// rule is one line of the table.
type rule struct {
	name Rule
	// applies reports whether the rule may be used for the output of a command with these words.
	applies func(words []string) bool
	// do returns the new text and a note that explains it. ok is false if the rule does not apply.
	do func(c *command, text string) (out, note string, ok bool)
	// undo is the inverse of do; nil for folding rules.
	undo func(out string) (text string, ok bool)
}

var table []rule

func init() {
	table = []rule{
		{Terminal, printsForPeople, terminal, nil},
		{Progress, printsForPeople, progress, nil},
		{Search, searches, matches, ungroup},
		{Tree, listsPaths, paths, untree},
		{Tests, runsPrograms, tests, nil},
		{Frames, runsPrograms, frames, nil},
		{Hints, printsGitHints, hints, nil},
		{Repeats, runsPrograms, repeats, unrepeat},
		{Numbers, runsPrograms, numbers, unnumber},
		{Alike, printsForPeople, alike, unalike},
	}
}

// Options are the options for one text.
type Options struct {
	Off    map[Rule]bool // rules that are not used
	NoFold bool          // the whole text cannot be stored, so nothing is folded
	// Root is where relative paths of matches start; "" if unknown.
	Root string
	// Program returns the shell command that runs cachebro. nil means "cachebro".
	Program func() string
}

// Part is how many bytes one rule saved.
type Part struct {
	Rule  Rule
	Saved int
}

// Result is a reshaped text.
type Result struct {
	Text   string
	Parts  []Part
	Folded bool   // something was left out; the caller must store the original under ID
	ID     string // the ID of the original text, if Folded
}

// Output reshapes what a command line printed, or returns false.
func Output(line, text string, o Options) (Result, bool) {
	if len(text) < minSaved || len(text) > MaxText {
		return Result{}, false
	}
	c, ok := parse(line)
	if !ok || forbiddenText(text) {
		return Result{}, false
	}
	return c.reshape(text, o)
}

// Matches reshapes lines "path:line:text" from our own tools or a client's Grep. numbered means
// that they have line numbers.
func Matches(text string, numbered bool, o Options) (Result, bool) {
	c := &command{makers: [][]string{{"matches"}}, numbered: numbered, only: []Rule{Search, Alike}}
	if len(text) < minSaved || len(text) > MaxText || forbiddenText(text) {
		return Result{}, false
	}
	return c.reshape(c.relativeContext(text, o.Root), o)
}

// Paths reshapes a list of paths, one per line, from our own tools or a client's Glob.
func Paths(text string, o Options) (Result, bool) {
	c := &command{makers: [][]string{{"paths"}}, only: []Rule{Tree}}
	if len(text) < minSaved || len(text) > MaxText {
		return Result{}, false
	}
	return c.reshape(text, o)
}

func (c *command) reshape(text string, o Options) (Result, bool) {
	if !utf8.ValidString(text) || strings.Contains(text, Mark) || strings.Contains(text, "\x00") {
		return Result{}, false
	}
	r := Result{Text: text}
	var notes []string
	noFold := sync.OnceValue(func() bool { return o.NoFold || secrets(text) })
	for _, rule := range table {
		if o.Off[rule.name] || !c.takes(rule) || rule.name.Folds() && noFold() {
			continue
		}
		out, note, ok := rule.do(c, r.Text)
		if !ok || len(out)+len(note) >= len(r.Text) {
			continue
		}
		if rule.undo != nil {
			if back, ok := rule.undo(out); !ok || back != r.Text {
				continue
			}
		}
		r.Parts = append(r.Parts, Part{rule.name, len(r.Text) - len(out)})
		r.Text, r.Folded = out, r.Folded || rule.name.Folds()
		if note != "" {
			notes = append(notes, note)
		}
	}
	if len(r.Parts) == 0 {
		return Result{}, false
	}
	head := strings.Join(notes, "; ")
	if r.Folded {
		r.ID = ID(text)
		program := "cachebro"
		if o.Program != nil {
			program = o.Program()
		}
		head += fmt.Sprintf("; the whole output: %s output %s", program, r.ID)
	}
	if head != "" {
		r.Text = Mark + head + "\n" + r.Text
	}
	saved := len(text) - len(r.Text)
	if saved < minSaved || saved*100 < minPart*len(text) {
		return Result{}, false
	}
	// The rules' savings must add up to the total, so the length of the notes is subtracted from
	// the first rule's.
	r.Parts[0].Saved -= len(r.Text) - (len(text) - sum(r.Parts))
	return r, true
}

func sum(ps []Part) (n int) {
	for _, p := range ps {
		n += p.Saved
	}
	return n
}

// ID returns a text's id for "cachebro output ID".
func ID(output string) string { return text.Hash([]byte(output))[:8] }

// splitLines splits a text into lines and removes the newlines. last reports whether the last line
// ended with a newline.
func splitLines(text string) (lines []string, last bool) {
	text, last = strings.CutSuffix(text, "\n")
	return strings.Split(text, "\n"), last
}

func joinLines(lines []string, last bool) string {
	text := strings.Join(lines, "\n")
	if last {
		text += "\n"
	}
	return text
}
