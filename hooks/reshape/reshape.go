package reshape

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mark begins every sentence of ours.
const Mark = "cachebro: "

const (
	// minSaved and minPart are what it must spare, in bytes and in percent: a text
	// in another form than expected costs a model attention.
	minSaved = 400
	minPart  = 15
	// MaxText bytes are looked at: clients cut what is longer than 30 kB, and a hook
	// has milliseconds.
	MaxText = 256 << 10
)

// Rule is the name of one rule, as in init --no-reshape=NAME.
type Rule string

// The rules, in the order in which they are tried. All but the folding ones have an
// inverse.
const (
	Terminal Rule = "terminal" // codes of colours
	Progress Rule = "progress" // lines that were written again and again; folds
	Search   Rule = "search"   // matches under their path
	Tree     Rule = "tree"     // lists of paths
	Tests    Rule = "tests"    // passed tests; folds
	Frames   Rule = "frames"   // foreign stack frames; folds
	Hints    Rule = "hints"    // git's; folds
	Repeats  Rule = "repeats"  // blocks that stand there again
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

// Folds reports whether a rule leaves something out.
func (r Rule) Folds() bool { return r == Progress || r == Tests || r == Frames || r == Hints }

// rule is one line of the table. by says whether it is one for the output of this
// command; do gives the other text, what it says about that, and whether it has
// anything to say. undo is the inverse of do, nil for folding rules.
type rule struct {
	name Rule
	by   func(words []string) bool
	do   func(c *command, text string) (out, note string, ok bool)
	undo func(out string) (text string, ok bool)
}

var table []rule

func init() {
	table = []rule{
		{Terminal, talks, terminal, nil},
		{Progress, talks, progress, nil},
		{Search, searches, matches, ungroup},
		{Tree, listsPaths, paths, untree},
		{Tests, runsPrograms, tests, nil},
		{Frames, runsPrograms, frames, nil},
		{Hints, asksGit, hints, nil},
		{Repeats, repeatsItself, repeats, unrepeat},
		{Numbers, repeatsItself, numbers, unnumber},
		{Alike, printsAlike, alike, unalike},
	}
}

// Options for one text.
type Options struct {
	Off    map[Rule]bool
	Failed bool // the command did: nothing but foreign frames is folded
	NoFold bool // there is no place that keeps the whole text
	// Root is where relative paths of matches begin, "" if that is unknown.
	Root string
	// Program says how a shell finds cachebro; nil: by that name.
	Program func() string
}

// Part is what one rule spared, in bytes; it may be negative for none.
type Part struct {
	Rule  Rule
	Saved int
}

// Result is the other text.
type Result struct {
	Text   string
	Parts  []Part
	Folded bool   // something is missing: the text is to be kept under ID
	ID     string // of the text before, where Folded
}

// Output reshapes what a command line printed. false: the text stays as it is.
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

// Matches reshapes lines "path:line:text" that our own tools or a client's Grep
// made; numbered: they carry line numbers.
func Matches(text string, numbered bool, o Options) (Result, bool) {
	c := &command{makers: [][]string{{"matches"}}, numbered: numbered, only: []Rule{Search, Alike}}
	if len(text) < minSaved || len(text) > MaxText || forbiddenText(text) {
		return Result{}, false
	}
	return c.reshape(c.relativeContext(text, o.Root), o)
}

// Paths reshapes a list of paths, one a line, that our own tools or a client's Glob
// made.
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
	c.failed = o.Failed
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
	// What was spared by each rule adds up to what was spared.
	r.Parts[0].Saved -= len(r.Text) - (len(text) - sum(r.Parts))
	return r, true
}

func sum(ps []Part) (n int) {
	for _, p := range ps {
		n += p.Saved
	}
	return n
}

// ID names a text in "cachebro output ID".
func ID(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:4])
}

// splitLines cuts a text into lines without their ends; last: it ended with one.
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
