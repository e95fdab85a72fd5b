package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The judge does not use the code that it judges. A context is a list of messages, and the beliefs
// of a reader about a file are computed anew from that list each time. So a context that was
// rewound, silently cleared or compacted is just a shorter list.

// message is a message about one file in a context.
type message struct {
	file   int
	call   string // the tool call that the message is the result of; "" after the result was cleared
	clock  int    // tokens that the context had received before this message
	result int    // tokens of the tool's result, which clients may clear; 0 if the message is not a result
	// take changes the reader's beliefs. It makes the file's new lines from parts of the old lines
	// and from lines that the message shows.
	take func(m *mind)
}

// conversation is one context window.
type conversation struct{ said []message }

// mind returns what the reader believes about a file.
func (c *conversation) mind(file, clock int) *mind {
	m := &mind{}
	for _, s := range c.said {
		if s.file == file {
			m.clock = s.clock
			s.take(m)
		}
	}
	m.clock = clock
	return m
}

func (c *conversation) add(m message) { c.said = append(c.said, m) }

// cleared drops all tool results except the newest n, if the dropped results have at least atLeast
// tokens. It returns the number of dropped tokens.
func (c *conversation) cleared(n, atLeast int) (tokens int) {
	var old []*message
	for i := len(c.said) - 1; i >= 0; i-- {
		if m := &c.said[i]; m.result > 0 {
			if n--; n < 0 {
				old, tokens = append(old, m), tokens+m.result
			}
		}
	}
	if tokens < atLeast {
		return 0
	}
	for _, m := range old {
		m.call, m.result, m.take = "", 0, func(*mind) {}
	}
	return tokens
}

// showing returns the effect of a message that shows numbered lines.
func showing(first int, lines []string, end bool) func(*mind) {
	return func(m *mind) { m.learn(first, lines, end) }
}

// lineRun describes a part of the present text, whose first line has the number at. The part is
// either the lines in shown, or n lines of the earlier text, the first of which had the number from.
type lineRun struct {
	at, from, n int
	shown       []string
}

// arranged returns the effect of a message that says where the lines of the earlier text are now.
// If whole is set, the file ends after the last of them. If based is set, the earlier text is the
// last full text of the file, even if single lines were shown or reported since.
func arranged(runs []lineRun, whole, based bool) func(*mind) {
	return func(m *mind) {
		was := *m
		if based && was.base != nil {
			was = *was.base
			was.clock = m.clock
		}
		*m = mind{clock: was.clock}
		for _, r := range runs {
			if r.shown != nil {
				m.learn(r.at, r.shown, false)
				continue
			}
			for i := range r.n {
				if from := r.from - 1 + i; from < len(was.lines) && was.known[from] {
					m.clock = was.marks[from]
					m.learn(r.at+i, was.lines[from:from+1], false)
				}
			}
			m.clock = was.clock
		}
		m.end = whole
		if whole {
			m.rebase()
		}
	}
}

// judged returns an error if a message about lines first..last is false or incomplete. After the
// message, the reader must know all these lines as they are in the file.
func judged(before *mind, take func(*mind), now []string, first, last int) error {
	m := &mind{lines: slices.Clone(before.lines), known: slices.Clone(before.known), marks: slices.Clone(before.marks), end: before.end, clock: before.clock, base: before.base}
	take(m)
	for i := first; i <= last; i++ {
		switch {
		case i > len(m.lines) || !m.known[i-1]:
			return fmt.Errorf("line %d was not sent, and the reader does not know it", i)
		case m.lines[i-1] != now[i-1]:
			return fmt.Errorf("line %d is %[3]q, but the reader believes that it is %[2]q", i, m.lines[i-1], now[i-1])
		}
	}
	return nil
}

var (
	notRepeated = regexp.MustCompile(`^cachebro: not repeated\. Lines? (\d+)(?:-(\d+))? of .+? (?:is|are) exactly as `)
	shownNow    = regexp.MustCompile(`lines? (\d+)(?:-(\d+))? (?:is|are) shown as (?:it is|they are) now\.`)
	sameLines   = regexp.MustCompile(`^lines? (\d+)(?:-(\d+))? (?:is|are) unchanged$`)
	movedLines  = regexp.MustCompile(`^old (?:lines? )?(\d+)(?:-(\d+))? (?:is|are) now (\d+)(?:-(\d+))?, otherwise unchanged$`)
)

// span returns the two numbers of a match; a single number stands for both.
func span(first, last string) (from, to int) {
	from, _ = strconv.Atoi(first)
	to = from
	if last != "" {
		to, _ = strconv.Atoi(last)
	}
	return from, to
}

// repeated reads the sentence that stands in place of a text, and returns the lines that the
// sentence calls unchanged.
func repeated(text string) (runs []lineRun, err error) {
	f := notRepeated.FindStringSubmatch(text)
	if f == nil {
		return nil, fmt.Errorf("the sentence %q names no lines", text)
	}
	from, to := span(f[1], f[2])
	return []lineRun{{at: from, from: from, n: to - from + 1}}, nil
}

// noted reads the note above changed lines. The changed lines begin at line start.
func noted(note string, start int, shown []string) ([]lineRun, error) {
	f := shownNow.FindStringSubmatchIndex(note)
	if f == nil {
		return nil, fmt.Errorf("the note %q names no lines", note)
	}
	end := ""
	if f[4] >= 0 {
		end = note[f[4]:f[5]]
	}
	from, to := span(note[f[2]:f[3]], end)
	if n := len(shown); n == to-from+2 && shown[n-1] == "" {
		to++ // the client shows an empty line after the last newline, which the note does not count
	}
	if start == 0 {
		start = from // the lines in a shell's output have no numbers, so they start where the note says
	}
	if from != start || to-from+1 != len(shown) {
		return nil, fmt.Errorf("the note is about lines %d-%d, but %d lines from %d on are shown", from, to, len(shown), start)
	}
	runs := []lineRun{{at: start, shown: shown}}
	rest := strings.TrimSuffix(strings.TrimSpace(note[f[1]:]), ".")
	if rest == "" {
		return runs, nil
	}
	for clause := range strings.SplitSeq(rest, "; ") {
		clause = strings.ToLower(clause[:1]) + clause[1:]
		if f := sameLines.FindStringSubmatch(clause); f != nil {
			from, to := span(f[1], f[2])
			runs = append(runs, lineRun{at: from, from: from, n: to - from + 1})
		} else if f := movedLines.FindStringSubmatch(clause); f != nil {
			from, to := span(f[1], f[2])
			at, until := span(f[3], f[4])
			if until-at != to-from {
				return nil, fmt.Errorf("%q: the numbers of lines differ", clause)
			}
			runs = append(runs, lineRun{at: at, from: from, n: to - from + 1})
		} else {
			return nil, fmt.Errorf("%q is not understood", clause)
		}
	}
	return runs, nil
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// patched reads a unified diff against the text that the reader knows, and returns the runs of the
// new text.
func patched(m *mind, patch string) (runs []lineRun, err error) {
	if _, ok := m.whole(); !ok {
		return nil, fmt.Errorf("a diff was sent to a reader that does not know the file")
	}
	old, at := 1, 1 // the numbers of the next lines
	keep := func(n int) {
		if n > 0 {
			runs = append(runs, lineRun{at: at, from: old, n: n})
			old, at = old+n, at+n
		}
	}
	// For the reader, an empty line follows the last newline. For a diff it does not.
	total := len(m.lines)
	ends := m.lines[total-1] == ""
	if ends {
		total--
	}
	last := byte(0)
	for l := range strings.Lines(patch) {
		l = strings.TrimSuffix(l, "\n")
		if f := hunkHead.FindStringSubmatch(l); f != nil {
			from, _ := strconv.Atoi(f[1])
			if f[2] == "0" {
				from++
			}
			keep(from - old)
			continue
		}
		if l == "" {
			l = " "
		}
		switch l[0] {
		case ' ', '-':
			if old > total || m.lines[old-1] != l[1:] {
				return nil, fmt.Errorf("the diff is for another text at line %d: %q", old, l)
			}
			if l[0] == ' ' {
				keep(1)
			} else {
				old++
			}
			last = l[0]
		case '+':
			runs = append(runs, lineRun{at: at, shown: []string{l[1:]}})
			at++
			last = '+'
		case '\\': // there is no newline at the end of the old or the new text
			ends = last == '-'
		}
	}
	if keep(total - old + 1); ends {
		runs = append(runs, lineRun{at: at, shown: []string{""}})
	}
	return runs, nil
}
