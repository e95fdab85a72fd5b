package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cachebro/store/diff"
)

// mind is what one context window holds of a file: what a reader that follows
// everything it was sent would say the file's lines are. The piece behind the
// last newline counts as a line, as it does in the client's numbering.
type mind struct {
	lines []string
	known []bool
	marks []int // tokens that the context had been given when a line's text came
	end   bool  // it has seen where the file ends
	clock int   // tokens that the context has been given by now
}

// minds of a context window, by file.
type minds map[int]*mind

func (m minds) of(file int) *mind {
	if m[file] == nil {
		m[file] = &mind{}
	}
	return m[file]
}

// within is the mind without what came more than n tokens ago: clients drop old
// results without a word, and so the design lets a base expire.
func (m *mind) within(n int) *mind {
	young := &mind{lines: m.lines, known: slices.Clone(m.known), end: m.end}
	for i := range young.known {
		young.known[i] = young.known[i] && m.clock-m.marks[i] <= n
	}
	return young
}

// holds reports whether lines first..last are all held and are those of now.
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

// whole is the file as the reader believes it to be, if it holds all of it.
func (m *mind) whole() (string, bool) {
	if len(m.lines) == 0 || !m.end || slices.Contains(m.known, false) {
		return "", false
	}
	return strings.Join(m.lines, "\n"), true
}

// told takes in lines that were shown under their numbers.
func (m *mind) told(first int, shown []string, end bool) {
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
}

func (m *mind) all(text string) {
	*m = mind{clock: m.clock}
	m.told(1, strings.Split(text, "\n"), true)
}

// follows takes in a text that was derived from what the mind holds: it is as
// old as that.
func (m *mind) follows(text string) {
	oldest := m.clock
	for _, t := range m.marks {
		oldest = min(oldest, t)
	}
	m.all(text)
	for i := range m.marks {
		m.marks[i] = oldest
	}
}

// edited follows the reader's own edit of lines from..to (0-based, half open).
// What it wrote stands there as whole lines only if it held the lines that it
// replaced: an edit's text may begin and end anywhere in a line.
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

// stub checks an "unchanged".
func (m *mind) stub(now []string, first, last int) error {
	if !m.holds(now, first, last) {
		return fmt.Errorf("lines %d-%d were called unchanged to a reader that does not hold them", first, last)
	}
	return nil
}

// patched checks a unified diff and takes it in.
func (m *mind) patched(patch, now string) error {
	old, ok := m.whole()
	if !ok {
		return fmt.Errorf("a diff was sent to a reader that does not hold the file")
	}
	got, err := diff.Apply([]byte(old), []byte(patch))
	if err != nil {
		return fmt.Errorf("the diff does not apply to what the reader holds: %w", err)
	}
	if string(got) != now {
		return fmt.Errorf("the diff leads to another text than the file's")
	}
	m.follows(now)
	return nil
}

var movedOld = regexp.MustCompile(`old (\d+)-(\d+) are now`)

// span checks real lines of a changed file beside the note that says what the
// others are, and takes them in.
func (m *mind) span(first int, shown []string, note, now string) error {
	if _, ok := m.whole(); !ok {
		return fmt.Errorf("changed lines were sent to a reader that does not hold the rest")
	}
	next := first - 1 + len(shown) // 0-based, in the old text
	if f := movedOld.FindStringSubmatch(note); f != nil {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return err
		}
		next = n - 1
	}
	if first-1 > len(m.lines) || next > len(m.lines) {
		return fmt.Errorf("the note speaks of lines that the reader does not hold")
	}
	tail := m.lines[next:]
	if !strings.Contains(note, "old ") && !strings.Contains(note, "nchanged.") || strings.HasSuffix(note, "as they are now.") {
		tail = nil
	}
	if strings.Count(note, "unchanged") == 1 && strings.Contains(note, "Line") && first > 1 && !strings.Contains(note, "old ") {
		tail = nil // only the lines before are said to be unchanged: the file ends here
	}
	got := strings.Join(slices.Concat(m.lines[:first-1], shown, tail), "\n")
	if got != now {
		return fmt.Errorf("the changed lines lead to another text than the file's")
	}
	m.follows(now)
	return nil
}
