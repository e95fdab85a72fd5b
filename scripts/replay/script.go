package main

import (
	"slices"
	"strings"
)

// cell is a line of a file at some time. Its number is unknown (-1) until a read shows it. Versions
// of a file share the cells of the lines that they have in common.
type cell struct{ n int }

const unknown = -1

func (c *cell) may(n int) bool { return c.n == unknown || c.n == n }

// step is one step of a replay. pre is the file's content before the step, and post the
// content after an edit or a write.
type step struct {
	op          string // read, edit, write, compact, other
	agent, file int
	pre, post   []*cell
	first, last int // for read: cells, 1-based and inclusive
	whole       bool
	from, to    int // for edit: pre[from:to] is replaced by with
	with        []*cell
	everywhere  bool
	others      bool   // a process outside the session has given the file the content pre
	chars       int    // length of the recorded result
	kind        string // kind of a command
}

// script turns a trace into steps whose file contents agree with every read.
type script struct {
	steps    []step
	now      map[int][]*cell
	sizes    map[int]int // number of lines of each file, for files whose first read does not report it
	unplaced int         // number of edits whose place in the known lines was not found
}

func newScript(t *trace) *script {
	s := &script{now: map[int][]*cell{}, sizes: sizes(t)}
	for _, e := range t.Events {
		switch {
		case (e.Op == "bash" || e.Op == "grep" || e.Op == "glob") && !e.Error:
			kind := e.Kind
			if e.Op != "bash" {
				kind = e.Op
			}
			s.steps = append(s.steps, step{op: "command", agent: e.Agent, chars: e.Chars, kind: kind})
		case e.Op == "compact":
			s.steps = append(s.steps, step{op: "compact", agent: e.Agent})
		case e.Error || e.Nontext != nil:
			s.steps = append(s.steps, step{op: "other", agent: e.Agent, chars: e.Chars})
		case e.Op == "read" && len(e.Lines) > 0 && e.Start > 0:
			s.read(e)
		case e.Op == "edit" && len(e.Old) > 0:
			s.edit(e)
		case e.Op == "write" && len(e.Lines) > 0:
			post := cells(e.Lines)
			s.steps = append(s.steps, step{op: "write", agent: e.Agent, file: e.File, pre: s.now[e.File], post: post, chars: e.Chars})
			s.now[e.File] = post
		default:
			s.steps = append(s.steps, step{op: "other", agent: e.Agent, chars: e.Chars})
		}
	}
	return s
}

// sizes returns the number of lines of each file. This is the first total that a read reports or,
// if no read reports a total, the last line of any read.
func sizes(t *trace) map[int]int {
	out, told := map[int]int{}, map[int]bool{}
	for _, e := range t.Events {
		if e.Op != "read" || len(e.Lines) == 0 || told[e.File] {
			continue
		}
		if e.Total > 0 {
			out[e.File], told[e.File] = e.Total, true
		} else {
			out[e.File] = max(out[e.File], e.Start-1+len(e.Lines))
		}
	}
	return out
}

func cells(lines []int) []*cell {
	out := make([]*cell, len(lines))
	for i, n := range lines {
		out[i] = &cell{n}
	}
	return out
}

func unknowns(n int) []*cell {
	out := make([]*cell, max(0, n))
	for i := range out {
		out[i] = &cell{unknown}
	}
	return out
}

func (s *script) read(e traceEvent) {
	cur, start, n := s.now[e.File], e.Start-1, len(e.Lines)
	total := e.Total
	if total < start+n {
		total = 0
	}
	if cur == nil {
		if total == 0 {
			total = max(start+n, s.sizes[e.File])
		}
		cur = unknowns(total)
	}
	cur = s.agree(cur, start, e.Lines, total)
	s.now[e.File] = cur
	s.steps = append(s.steps, step{
		op: "read", agent: e.Agent, file: e.File, pre: cur, chars: e.Chars,
		first: e.Start, last: start + n, whole: e.Start == 1 && n == len(cur),
	})
}

// agree returns a version of cur that has the given lines at start, and total lines in all. If
// total is 0, it is not known. agree changes as little as possible.
func (s *script) agree(cur []*cell, start int, lines []int, total int) []*cell {
	n := len(lines)
	best, bestScore := 0, -1
	delta := 0
	if total > 0 {
		delta = total - len(cur)
	}
	// Find out by how many lines cur must be shifted so that most of its lines agree with the given
	// ones. A known line that agrees counts 2, an unknown line 1.
	for _, shift := range append([]int{0, delta}, around(30)...) {
		if from := start - shift; from < 0 || from > len(cur) {
			continue
		}
		score := 0
		for i, l := range lines {
			if p := start - shift + i; p < len(cur) && cur[p].n == l {
				score += 2
			} else if p < len(cur) && cur[p].n == unknown {
				score++
			}
		}
		if score > bestScore {
			best, bestScore = shift, score
		}
	}
	from := start - best
	to := min(from+n, len(cur))
	if total > 0 {
		// The recording says how many lines follow the shown lines. Compute from that number where
		// the shown lines end.
		to = len(cur) - (total - start - n)
		if to < from {
			to = from
		}
		to = min(to, len(cur))
	}
	if from < 0 || from > len(cur) {
		from = min(start, len(cur))
	}
	to = max(to, from)
	out := make([]*cell, 0, len(cur)+n)
	out = append(out, cur[:min(from, start)]...)
	out = append(out, unknowns(start-len(out))...)
	out = append(out, merged(cur[from:to], lines)...)
	out = append(out, cur[to:]...)
	if total > 0 {
		for len(out) < total {
			out = append(out, &cell{unknown})
		}
		out = out[:max(total, start+n)]
	}
	if slices.Equal(out, cur) {
		return cur
	}
	return out
}

func around(n int) (out []int) {
	for i := 1; i <= n; i++ {
		out = append(out, i, -i)
	}
	return out
}

// merged returns cells for lines. It reuses the cells in old that can be the same lines.
func merged(old []*cell, lines []int) []*cell {
	if len(old) == len(lines) {
		out := make([]*cell, len(lines))
		same := 0
		for i, c := range old {
			if c.may(lines[i]) {
				same++
			}
		}
		if same*10 >= len(lines)*8 { // the lines that cannot be the same were replaced in place
			for i, c := range old {
				out[i] = c
				if !c.may(lines[i]) {
					out[i] = &cell{}
				}
				out[i].n = lines[i]
			}
			return out
		}
	}
	// Find the best common subsequence. A match with a known line counts 4. An unknown line can be
	// any line, so a match with it counts only 1.
	a, b := len(old), len(lines)
	t := make([][]int32, a+1)
	for i := range t {
		t[i] = make([]int32, b+1)
	}
	for i := a - 1; i >= 0; i-- {
		for j := b - 1; j >= 0; j-- {
			t[i][j] = max(t[i+1][j], t[i][j+1])
			if old[i].n == lines[j] {
				t[i][j] = max(t[i][j], t[i+1][j+1]+4)
			} else if old[i].n == unknown {
				t[i][j] = max(t[i][j], t[i+1][j+1]+1)
			}
		}
	}
	out := make([]*cell, 0, b)
	for i, j := 0, 0; j < b; {
		switch {
		case i < a && old[i].n == lines[j] && t[i][j] == t[i+1][j+1]+4,
			i < a && old[i].n == unknown && t[i][j] == t[i+1][j+1]+1:
			old[i].n = lines[j]
			out = append(out, old[i])
			i, j = i+1, j+1
		case i < a && t[i][j] == t[i+1][j]:
			i++
		default:
			out = append(out, &cell{lines[j]})
			j++
		}
	}
	return out
}

// edit finds the old lines of an edit. Recorded texts may begin and end in the middle of a line. In
// that case only the lines in between are compared.
func (s *script) edit(e traceEvent) {
	cur := s.now[e.File]
	at, trim := place(cur, e.Old, 0), 0
	if at < 0 && len(e.Old) >= 3 {
		at, trim = place(cur, e.Old[1:len(e.Old)-1], 1), 1
		at--
	}
	if at < 0 {
		s.unplaced++
		s.steps = append(s.steps, step{op: "other", agent: e.Agent, chars: e.Chars})
		return
	}
	to := at + len(e.Old)
	pre := slices.Clone(cur)
	with := make([]*cell, len(e.New))
	for i, n := range e.New {
		with[i] = &cell{n}
		if trim == 1 && (i == 0 || i == len(e.New)-1) {
			with[i] = &cell{unknown}
		}
	}
	if trim == 0 {
		for i, n := range e.Old {
			pre[at+i].n = n
		}
	} else {
		for i, n := range e.Old[1 : len(e.Old)-1] {
			pre[at+1+i].n = n
		}
	}
	// Unchanged lines at the start keep their cells.
	for i := 0; i < len(with) && at+i < to && with[i].n != unknown && pre[at+i].may(with[i].n); i++ {
		pre[at+i].n = with[i].n
		with[i] = pre[at+i]
	}
	post := slices.Concat(pre[:at], with, pre[to:])
	if e.All && len(e.Old) == 1 {
		post = nil
		for _, c := range pre {
			if c.n == e.Old[0] {
				post = append(post, with...)
			} else {
				post = append(post, c)
			}
		}
	}
	s.steps = append(s.steps, step{
		op: "edit", agent: e.Agent, file: e.File, pre: pre, post: post, from: at, to: to, with: with,
		everywhere: e.All && len(e.Old) == 1, chars: e.Chars,
	})
	s.now[e.File] = post
}

// place finds the position in cur at which all given lines may be and the most of them are known to
// be. It returns -1 if no line is known to be at any such position. At least margin lines of cur must
// remain on both sides.
func place(cur []*cell, lines []int, margin int) int {
	best, score := -1, 0
	for at := margin; at+len(lines)+margin <= len(cur); at++ {
		n := 0
		for i, l := range lines {
			if !cur[at+i].may(l) {
				n = -1
				break
			}
			if cur[at+i].n == l {
				n++
			}
		}
		if n > score {
			best, score = at, n
		}
	}
	return best
}

// fillIn gives a made-up text to every line that no read showed.
func (s *script) fillIn(t *texts) {
	fill := func(cs []*cell) {
		for i, c := range cs {
			if c.n == unknown {
				c.n = t.filler()
				if i == len(cs)-1 {
					c.n = t.empty()
				}
			}
		}
	}
	for i := range s.steps {
		fill(s.steps[i].pre)
		fill(s.steps[i].post)
	}
}

func content(cs []*cell, t *texts) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(t.of(c.n))
	}
	return b.String()
}
