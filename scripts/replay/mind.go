package main

import (
	"slices"
	"strings"
)

// mind is the knowledge of a reader about a file, from the texts that are still in the reader's
// context window. As in the client's numbering of lines, the text after the last newline counts as
// a line.
type mind struct {
	lines []string
	known []bool
	marks []int // for each line, the size of the context in tokens when the text of the line arrived
	end   bool  // the reader has seen the end of the file
	clock int   // the present size of the context in tokens
	base  *mind // the last text of the whole file that was shown
}

// within returns the mind without texts that arrived more than n tokens ago. Clients drop old
// results silently, so cachebro does not rely on old texts.
func (m *mind) within(n int) *mind {
	expiring := &mind{lines: m.lines, known: slices.Clone(m.known), end: m.end}
	for i := range expiring.known {
		expiring.known[i] = expiring.known[i] && m.clock-m.marks[i] <= n
	}
	return expiring
}

// holds reports whether the reader knows all of lines first..last as they are now.
func (m *mind) holds(now []string, first, last int) bool {
	if last > len(m.lines) || last > len(now) || last < first {
		return false
	}
	for i := first - 1; i < last; i++ {
		if !m.known[i] || m.lines[i] != now[i] {
			return false
		}
	}
	return true
}

// whole returns the file as the reader believes it to be, if the reader knows all of it.
func (m *mind) whole() (string, bool) {
	if len(m.lines) == 0 || !m.end || slices.Contains(m.known, false) {
		return "", false
	}
	return strings.Join(m.lines, "\n"), true
}

// learn adds numbered lines that were shown.
func (m *mind) learn(first int, shown []string, end bool) {
	for len(m.lines) < first-1+len(shown) {
		m.lines, m.known, m.marks = append(m.lines, ""), append(m.known, false), append(m.marks, 0)
		m.end = false
	}
	for i, l := range shown {
		m.lines[first-1+i], m.known[first-1+i], m.marks[first-1+i] = l, true, m.clock
	}
	if end {
		n := first - 1 + len(shown)
		m.lines, m.known, m.marks, m.end = m.lines[:n], m.known[:n], m.marks[:n], true
	}
	if end && first == 1 {
		m.rebase()
	}
}

// rebase makes the present knowledge the base of later messages about changes.
func (m *mind) rebase() {
	if _, ok := m.whole(); ok {
		m.base = &mind{lines: slices.Clone(m.lines), known: slices.Clone(m.known), marks: slices.Clone(m.marks), end: m.end, clock: m.clock}
	}
}

// place returns the position at which the reader believes lines to be. The parameter at is their
// real position, and place returns it if the reader knows nothing that contradicts it. Otherwise
// place returns the only other position at which the reader knows these lines, or -1 if there is
// none or more than one.
func (m *mind) place(at int, lines []string) int {
	stands := func(at int, known bool) bool {
		for i, l := range lines {
			if at+i >= len(m.lines) || m.known[at+i] && m.lines[at+i] != l || known && !m.known[at+i] {
				return false
			}
		}
		return true
	}
	if at >= len(m.lines) || stands(at, false) {
		return at
	}
	at = -1
	for i := range m.lines {
		if stands(i, true) {
			if at >= 0 {
				return -1
			}
			at = i
		}
	}
	return at
}

// edited applies the reader's own edit of lines from..to (0-based, half open). The reader knows the
// new lines only if it knew the lines that they replaced, because the text of an edit may begin and
// end in the middle of a line.
func (m *mind) edited(from, to int, with []string) {
	if from >= len(m.lines) {
		return
	}
	to = min(to, len(m.lines))
	held := !slices.Contains(m.known[from:to], false)
	flags, marks := make([]bool, len(with)), make([]int, len(with))
	oldest := m.clock
	for _, t := range m.marks[from:to] {
		oldest = min(oldest, t)
	}
	for i := range flags {
		flags[i], marks[i] = held, oldest
	}
	m.lines = slices.Concat(m.lines[:from], with, m.lines[to:])
	m.known = slices.Concat(m.known[:from], flags, m.known[to:])
	m.marks = slices.Concat(m.marks[:from], marks, m.marks[to:])
}
