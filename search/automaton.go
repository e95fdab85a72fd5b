package search

import (
	"bytes"
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"

	"cachebro/store/leaf/text"
)

// automaton finds the lines of a text that contain a match. It is a deterministic automaton over
// runes, built on demand from a regexp/syntax program. The standard library's matcher also finds
// where a match begins and ends, and reads 20–60 MB/s. The automaton reads several hundred MB/s. It
// also gives \b the meaning that it has in ripgrep (Unicode words), which the standard library
// cannot do.
//
// A state is the set of instructions that wait for the next rune, and the class of the previous
// rune. Empty-width conditions depend on the next rune, so a match is noticed one rune late.
//
// An automaton is not safe for concurrent use, so each worker has its own.
type automaton struct {
	prog   *syntax.Prog
	states []state
	table  []int32 // the next state of states[i] after ASCII byte c is at i*128+c; 0 if not computed yet
	index  map[string]int32
	mark   []uint32 // by instruction: the last epoch in which close visited it
	kept   int      // number of seeds in all states
	epoch  uint32
	seeds  []uint32 // scratch
	stack  []uint32
}

type state struct {
	seeds []uint32 // instructions before following empty transitions, sorted
	prev  runeClass
	other map[rune]int32 // transitions on runes beyond ASCII
}

// runeClass is the class of the rune before a position.
type runeClass uint8

const (
	afterNewline runeClass = iota // or the start of the text
	afterWord
	afterOther
)

const (
	unknown   = 0
	lineFound = 1 // the line matches
	lineStart = 2 // at the start of a line
	// maxStates bounds the automaton's memory (about 1 KiB per state). When it is exceeded, all
	// states are discarded.
	maxStates = 8192
	// maxSteps bounds the work for one byte of text, and maxSeeds the seeds of all states. A short
	// expression can expand to millions of instructions.
	maxSteps = 10000
	maxSeeds = 4 << 20
	// endOfText stands for the end of the text. badRune stands for a byte that is not UTF-8. As in
	// ripgrep, no class contains badRune.
	endOfText rune = -1
	badRune   rune = -2
)

// newAutomaton compiles a pattern that searches lines. None of its classes matches a newline.
func newAutomaton(expr string) (*automaton, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if n := size(re); n > maxSteps {
		return nil, fmt.Errorf("it expands to %d steps, more than the limit of %d", n, maxSteps)
	}
	re = re.Simplify()
	dropNewline(re)
	prog, err := syntax.Compile(re)
	if err != nil {
		return nil, err
	}
	d := &automaton{prog: prog, mark: make([]uint32, len(prog.Inst))}
	d.reset()
	return d, nil
}

// size estimates the number of instructions of an expression. A repeated part counts as often as it
// is repeated.
func size(re *syntax.Regexp) int {
	n := max(1, len(re.Rune))
	if re.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, 1<<30)
}

// Clone returns an automaton for the same pattern for another worker.
func (d *automaton) Clone() *automaton {
	c := &automaton{prog: d.prog, mark: make([]uint32, len(d.prog.Inst))}
	c.reset()
	return c
}

func (d *automaton) reset() {
	d.states = make([]state, 2, 64)
	d.table = make([]int32, 2*128, 64*128)
	d.index = map[string]int32{}
	d.kept = 0
	d.intern(nil, afterNewline)
}

// dropNewline removes the newline from every class, so that no match extends past a line's end.
func dropNewline(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpCharClass:
		var out []rune
		for i := 0; i < len(re.Rune); i += 2 {
			lo, hi := re.Rune[i], re.Rune[i+1]
			if lo > '\n' || hi < '\n' {
				out = append(out, lo, hi)
				continue
			}
			if lo < '\n' {
				out = append(out, lo, '\n'-1)
			}
			if hi > '\n' {
				out = append(out, '\n'+1, hi)
			}
		}
		re.Rune = out
		if len(out) == 0 {
			re.Op = syntax.OpNoMatch
		}
	}
	for _, sub := range re.Sub {
		dropNewline(sub)
	}
}

// intern returns the number of the state with these sorted seeds, and adds the state if it is new.
func (d *automaton) intern(seeds []uint32, prev runeClass) int32 {
	key := make([]byte, 0, len(seeds)*4+1)
	key = append(key, byte(prev))
	for _, s := range seeds {
		key = append(key, byte(s), byte(s>>8), byte(s>>16), byte(s>>24))
	}
	if i, ok := d.index[string(key)]; ok {
		return i
	}
	i := int32(len(d.states))
	d.kept += len(seeds)
	d.states = append(d.states, state{seeds: slices.Clone(seeds), prev: prev})
	d.table = append(d.table, make([]int32, 128)...)
	d.index[string(key)] = i
	return i
}

// unicodeWord reports whether ripgrep's \w matches a rune.
func unicodeWord(r rune) bool {
	if r < utf8.RuneSelf {
		return text.IsWord(r)
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}

func classOf(r rune) runeClass {
	switch {
	case r == '\n' || r == endOfText:
		return afterNewline
	case unicodeWord(r):
		return afterWord
	}
	return afterOther
}

// conditions returns the empty-width conditions between a rune of class prev and the rune next.
func conditions(prev runeClass, next rune) syntax.EmptyOp {
	var c syntax.EmptyOp
	if prev == afterNewline {
		c |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	after := classOf(next)
	if after == afterNewline {
		c |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if (prev == afterWord) != (after == afterWord) {
		c |= syntax.EmptyWordBoundary
	} else {
		c |= syntax.EmptyNoWordBoundary
	}
	return c
}

// step computes the state after reading r in state s.
func (d *automaton) step(s int32, r rune) int32 {
	if len(d.states) > maxStates || d.kept > maxSeeds {
		seeds, prev := d.states[s].seeds, d.states[s].prev
		d.reset()
		s = d.intern(seeds, prev)
	}
	st := d.states[s]
	hold := conditions(st.prev, r)
	d.epoch++
	d.seeds = d.seeds[:0]
	matched := false
	for _, pc := range st.seeds {
		matched = d.close(pc, hold, r) || matched
	}
	matched = d.close(uint32(d.prog.Start), hold, r) || matched
	next := int32(lineFound)
	if !matched {
		if r == '\n' || r == endOfText {
			next = lineStart
		} else {
			slices.Sort(d.seeds)
			next = d.intern(slices.Compact(d.seeds), classOf(r))
		}
	}
	if r >= 0 && r < utf8.RuneSelf {
		d.table[int(s)*128+int(r)] = next
	} else {
		if d.states[s].other == nil {
			d.states[s].other = map[rune]int32{}
		}
		d.states[s].other[r] = next
	}
	return next
}

// close follows the empty transitions from pc whose conditions hold. It collects the instructions
// that reading r leads to, and reports whether it reached a match.
func (d *automaton) close(pc uint32, hold syntax.EmptyOp, r rune) bool {
	d.stack = append(d.stack[:0], pc)
	matched := false
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.mark[pc] == d.epoch {
			continue
		}
		d.mark[pc] = d.epoch
		inst := &d.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^hold == 0 {
				d.stack = append(d.stack, inst.Out)
			}
		case syntax.InstMatch:
			matched = true
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if r >= 0 && r != '\n' && inst.MatchRune(r) {
				d.seeds = append(d.seeds, inst.Out)
			}
		}
	}
	return matched
}

// next is like step, for endOfText and runes beyond ASCII. It caches the results.
func (d *automaton) next(s int32, r rune) int32 {
	if n, ok := d.states[s].other[r]; ok {
		return n
	}
	return d.step(s, r)
}

// Match returns the offset of a byte in the first matching line of text[at:], or -1. at must be the
// start of a line.
func (d *automaton) Match(text []byte, at int) int {
	s := int32(lineStart)
	for i := at; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			n := d.table[int(s)*128+int(c)]
			if n <= lineFound {
				if n == unknown {
					n = d.step(s, rune(c))
				}
				if n == lineFound {
					return i
				}
			}
			s = n
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			r = badRune
		}
		s = d.next(s, r)
		if s == lineFound {
			return i
		}
		i += size
	}
	if len(text) > at && text[len(text)-1] != '\n' && d.next(s, endOfText) == lineFound {
		return len(text) - 1
	}
	return -1
}

// MatchLine reports whether one line without its newline contains a match.
func (d *automaton) MatchLine(line []byte) bool {
	if d.Match(line, 0) >= 0 {
		return true
	}
	return len(line) == 0 && d.next(lineStart, endOfText) == lineFound
}

// unicodeClasses gives \d, \w and \s the meaning that they have in ripgrep. It works on the text of
// the pattern, because a parsed pattern no longer distinguishes \w from [0-9A-Za-z_].
func unicodeClasses(expr string) string {
	const (
		word  = `\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}`
		space = `\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`
	)
	var out bytes.Buffer
	class := 0
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		if c == '\\' && i+1 < len(expr) {
			i++
			body := ""
			switch expr[i] {
			case 'Q': // literal text up to \E
				end := len(expr)
				if n := bytes.Index([]byte(expr[i:]), []byte(`\E`)); n >= 0 {
					end = i + n + 2
				}
				out.WriteString(expr[i-1 : end])
				i = end - 1
				continue
			case 'd', 'D':
				body = `\p{Nd}`
			case 'w', 'W':
				body = word
			case 's', 'S':
				body = space
			}
			negated := expr[i] < 'a'
			switch {
			case body == "" || negated && class > 0:
				out.WriteByte('\\')
				out.WriteByte(expr[i])
			case class > 0:
				out.WriteString(body)
			case negated:
				out.WriteString("[^" + body + "]")
			default:
				out.WriteString("[" + body + "]")
			}
			continue
		}
		switch {
		case c == '[' && class == 0:
			class = 1
			out.WriteByte(c)
			if i+1 < len(expr) && expr[i+1] == '^' {
				i++
				out.WriteByte('^')
			}
			if i+1 < len(expr) && expr[i+1] == ']' {
				i++
				out.WriteByte(']')
			}
			continue
		case c == '[' && i+1 < len(expr) && expr[i+1] == ':': // [[:alpha:]]
			if n := bytes.Index([]byte(expr[i:]), []byte(":]")); n >= 0 {
				out.WriteString(expr[i : i+n+2])
				i += n + 1
				continue
			}
		case c == ']' && class > 0:
			class = 0
		}
		out.WriteByte(c)
	}
	return out.String()
}
