package search

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Query is an exact query for matching lines.
type Query struct {
	Pattern       string
	Regex         bool // if false, Pattern is literal text
	CaseSensitive bool
	Path          string   // only this file or directory
	Include       []string // globs; a file must match one
	Exclude       []string // globs; a file must match none
	Kind          Kind     // only files of this kind
	Limit         int      // maximum number of lines; 0 means no limit
	// Enough ends the search once the files read so far have this many matching lines. Files are
	// read in groups of readAtOnce. If Limit is 0, code is read first. Enough = 0 means that all
	// files are read.
	Enough int
}

// need is a condition, in the form of a tree, about the words that a text must contain in order to
// match.
type need struct {
	op   needOp
	subs []*need
	word wordNeed
}

type needOp uint8

const (
	needAll  needOp = iota // unknown: every text may match
	needNone               // no text can match
	needWord
	needAnd
	needOr
)

// wordNeed requires a word that contains text, at its start or end if that is known.
type wordNeed struct {
	text    string // folded
	atStart bool   // text is at the start of a word
	atEnd   bool
}

// compile checks a query. It returns an automaton, the need of the query, and a literal that every
// matching line contains, or "" if there is none.
func compile(q Query) (*automaton, *need, string, error) {
	if q.Pattern == "" {
		return nil, nil, "", fmt.Errorf("empty pattern; hint: name a word or a regular expression")
	}
	if strings.Contains(q.Pattern, "\n") {
		return nil, nil, "", fmt.Errorf("the pattern contains a line break, but a match is always within one line; hint: search for one of its lines")
	}
	expr := q.Pattern
	if q.Regex {
		if _, err := syntax.Parse(expr, syntax.Perl); err != nil {
			return nil, nil, "", explain(q.Pattern, err)
		}
		expr = unicodeClasses(expr)
	} else {
		expr = regexp.QuoteMeta(expr)
	}
	expr = "(?m:" + expr + ")"
	if !q.CaseSensitive {
		expr = "(?i)" + expr
	}
	d, err := newAutomaton(expr)
	if err != nil {
		return nil, nil, "", explain(q.Pattern, err)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, nil, "", explain(q.Pattern, err)
	}
	tree = tree.Simplify()
	return d, simplify(needOf(tree)), longest(tree), nil
}

// longest returns the longest literal that occurs in every match.
func longest(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return longest(re.Sub[0])
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if s := longest(sub); len(s) > len(best) {
				best = s
			}
		}
		return best
	}
	return ""
}

// explain turns an error of the parser into an error with a hint.
func explain(pattern string, err error) error {
	return fmt.Errorf("bad regular expression %q: %w; hint: search for it literally (regex=false), or write it in RE2's syntax, which has no look-around, backreferences, (?x) and \\u", pattern, err)
}

// lit is literal text within a regular expression. A side of the text is open if it is not known to
// be the start or end of a word.
type lit struct {
	text             string
	openLeft, openRt bool // more word runes may precede or follow
}

// needOf returns a need that every match of a regular expression satisfies.
func needOf(re *syntax.Regexp) *need {
	switch re.Op {
	case syntax.OpNoMatch:
		return &need{op: needNone}
	case syntax.OpLiteral:
		return needLit(lit{string(re.Rune), true, true})
	case syntax.OpCapture, syntax.OpPlus:
		return needOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		n := &need{op: needOr}
		for _, sub := range re.Sub {
			n.subs = append(n.subs, needOf(sub))
		}
		return n
	case syntax.OpConcat:
		return needConcat(re.Sub)
	}
	return &need{op: needAll}
}

// needConcat joins neighbouring literals, so that only the ends of a run are open. In foo\.bar(x|y)
// the words are foo (its end is known) and bar (its end is open).
func needConcat(subs []*syntax.Regexp) *need {
	n := &need{op: needAnd}
	run, open := "", true
	flush := func(openRight bool) {
		if run != "" {
			n.subs = append(n.subs, needLit(lit{run, open, openRight}))
		}
		run, open = "", true
	}
	for _, sub := range subs {
		for sub.Op == syntax.OpCapture {
			sub = sub.Sub[0]
		}
		switch sub.Op {
		case syntax.OpLiteral:
			run += string(sub.Rune)
		case syntax.OpEmptyMatch:
		case syntax.OpWordBoundary:
			// An ASCII word boundary is a boundary of our words only next to ASCII text: \b matches
			// before foo in éfoo, which is one word to us. So the ends of the literal stay open.
			flush(true)
		case syntax.OpBeginLine, syntax.OpBeginText:
			flush(true)
			open = false
		case syntax.OpEndLine, syntax.OpEndText:
			flush(false)
		default:
			flush(true)
			n.subs = append(n.subs, needOf(sub))
		}
	}
	flush(true)
	return n
}

// needLit requires each word of a literal.
func needLit(l lit) *need {
	n := &need{op: needAnd}
	text := []byte(l.text)
	eachWord(text, func(start, end int) {
		w := wordNeed{
			text:    string(appendFolded(nil, text[start:end])),
			atStart: start > 0 || !l.openLeft,
			atEnd:   end < len(text) || !l.openRt,
		}
		if len(w.text) > maxWord/2 && !(w.atStart && w.atEnd && len(w.text) <= maxWord) {
			// The text may be in a word that was cut into pieces. Only maxWord/2 bytes of it are
			// certainly within one piece.
			w.text, w.atEnd = strings.ToValidUTF8(w.text[:maxWord/2], ""), false
			w.atStart = w.atStart && len(w.text) == maxWord/2
		}
		n.subs = append(n.subs, &need{op: needWord, word: w})
	})
	return n
}

// simplify removes the parts of a need that exclude no file.
func simplify(n *need) *need {
	neutral, absorbing := needAll, needNone
	switch n.op {
	case needAnd:
	case needOr:
		neutral, absorbing = needNone, needAll
	default:
		return n
	}
	var subs []*need
	for _, sub := range n.subs {
		switch sub = simplify(sub); sub.op {
		case absorbing:
			return sub
		case neutral:
		case n.op:
			subs = append(subs, sub.subs...)
		default:
			subs = append(subs, sub)
		}
	}
	switch len(subs) {
	case 0:
		return &need{op: neutral}
	case 1:
		return subs[0]
	}
	return &need{op: n.op, subs: subs}
}
