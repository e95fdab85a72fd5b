package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cachebro/scripts/testkit/difftest"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// Mind holds the beliefs of a reader about one file, made from everything that the reader was sent.
// The reader is simple: it believes the last answer about a line, and applies a diff to the last
// whole text that it received.
type Mind struct {
	whole  *string        // the last whole text
	latest map[int]string // by line number: the lines received after whole
	total  int            // number of lines; -1 if unknown
	pages  string         // rows of a truncated diff that were received so far
}

// NewMind returns a Mind that knows nothing.
func NewMind() *Mind { return &Mind{latest: map[int]string{}, total: -1} }

var unchangedRange = regexp.MustCompile(`· lines (\d+)-(\d+) of (\d+)`)

// Hear records an answer. It returns an error if the reader now believes something about the
// requested lines that differs from the file.
func (m *Mind) Hear(r Read, a Answer, file string) error {
	switch {
	case a.Unchanged():
		return m.unchanged(r, a, file)
	case a.Changed():
		return m.changed(a, file)
	}
	return m.full(r, a, file)
}

func split(s string) []string {
	var out []string
	for _, l := range diff.Lines([]byte(s)) {
		out = append(out, string(l))
	}
	return out
}

func asked(r Read, total int) (first, last int) {
	first, last = max(1, r.Offset), total
	if r.Limit > 0 {
		last = min(total, first+r.Limit-1)
	}
	return first, last
}

func (m *Mind) full(r Read, a Answer, file string) error {
	lines := split(file)
	first, last := asked(r, len(lines))
	want := strings.Join(lines[first-1:last], "")
	if a.Text != want {
		return fmt.Errorf("full text of lines %d-%d is %.80q, the file has %.80q", first, last, a.Text, want)
	}
	m.pages = ""
	if first == 1 && last == len(lines) {
		m.set(file)
		return nil
	}
	for j, l := range m.latest {
		if j < first && first <= last && !strings.HasSuffix(l, "\n") {
			delete(m.latest, j) // this line had no newline, so it was the last line; now other lines follow it
		}
	}
	for i := first; i <= last; i++ {
		m.latest[i] = lines[i-1]
	}
	if first <= last && last == len(lines) && (r.Limit <= 0 || first+r.Limit-1 > last) {
		m.total = last // the answer has fewer lines than requested, so the file ends here
		maps.DeleteFunc(m.latest, func(i int, _ string) bool { return i > last })
	} else if last > m.total {
		m.total = -1
	}
	m.join(file)
	return nil
}

// join checks whether the known parts make up the whole file. If so, the reader has the whole text.
func (m *Mind) join(file string) {
	if m.whole != nil {
		return
	}
	lines := split(file)
	for i, want := range lines {
		if l, ok := m.line(i + 1); !ok || l != want {
			return
		}
	}
	if _, more := m.line(len(lines) + 1); !more {
		m.set(file)
	}
}

func (m *Mind) set(text string) {
	m.whole, m.latest, m.total, m.pages = &text, map[int]string{}, len(split(text)), ""
}

// line returns what the reader believes about one line. A line that was received without a newline
// is the last line.
func (m *Mind) line(i int) (string, bool) {
	if m.total >= 0 && i > m.total {
		return "", false
	}
	for j, l := range m.latest {
		if j < i && !strings.HasSuffix(l, "\n") {
			return "", false
		}
	}
	if l, ok := m.latest[i]; ok {
		return l, true
	}
	if m.whole != nil {
		if ls := split(*m.whole); i <= len(ls) {
			return ls[i-1], true
		}
	}
	return "", false
}

func (m *Mind) unchanged(r Read, a Answer, file string) error {
	lines := split(file)
	first, last := asked(r, len(lines))
	if g := unchangedRange.FindStringSubmatch(a.Text); g != nil {
		if g[1] != strconv.Itoa(first) || g[2] != strconv.Itoa(last) || g[3] != strconv.Itoa(len(lines)) {
			return fmt.Errorf("%s for lines %d-%d of %d", a.Text, first, last, len(lines))
		}
	}
	for i := first; i <= last; i++ {
		l, ok := m.line(i)
		if !ok {
			return fmt.Errorf("%s: the reader was never shown line %d", a.Text, i)
		}
		if l != lines[i-1] {
			return fmt.Errorf("%s: line %d is %q, the reader believes %q", a.Text, i, lines[i-1], l)
		}
	}
	if first == 1 && last == len(lines) {
		if m.whole != nil && len(m.latest) == 0 && *m.whole != file {
			return fmt.Errorf("%s: the reader believes in another text", a.Text)
		}
		m.set(file)
		return nil
	}
	for i := first; i <= last; i++ {
		m.latest[i] = lines[i-1] // the stub confirms the line
	}
	m.join(file)
	return nil
}

var sizes = regexp.MustCompile(`· (\d+) -> (\d+) lines\]$`)

func (m *Mind) changed(a Answer, file string) error {
	label, body, _ := strings.Cut(a.Text, "\n")
	base, err := m.base(label, file)
	if err != nil {
		return err
	}
	if i := strings.LastIndex(body, "[... diff truncated at "); i >= 0 && a.Truncated() {
		m.pages += body[:i]
		return nil
	}
	got, err := difftest.Apply([]byte(base), []byte(m.pages+body))
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if string(got) != file {
		return fmt.Errorf("%s: the diff makes another text than the file", label)
	}
	m.set(file)
	return nil
}

// base returns the text to which a diff has to be applied. This is the last whole text, or a whole
// text joined from parts that were received later. Parts received after the whole text must agree
// with it or with the present file, because the diff does not correct any other lines.
func (m *Mind) base(label, file string) (string, error) {
	g := sizes.FindStringSubmatch(label)
	if g == nil {
		return "", fmt.Errorf("%s: no sizes in the label", label)
	}
	total, _ := strconv.Atoi(g[1])
	parts := ""
	for i := 1; i <= total && parts != "?"; i++ {
		if l, ok := m.latest[i]; ok {
			parts += l
		} else {
			parts = "?"
		}
	}
	if parts != "?" && total > 0 && text.Lines([]byte(parts)) == total {
		if _, more := m.line(total + 1); !more {
			return parts, nil
		}
	}
	if m.whole == nil {
		return "", fmt.Errorf("%s: a diff for a reader that was never shown all lines", label)
	}
	now, was := split(file), split(*m.whole)
	for i, l := range m.latest {
		if !(i <= len(was) && was[i-1] == l) && !(i <= len(now) && now[i-1] == l) {
			return "", fmt.Errorf("%s: a diff against a text that was not the last word on line %d", label, i)
		}
	}
	return *m.whole, nil
}

var oldEnd = regexp.MustCompile(`[Oo]ld (?:\d+-)?(\d+) (?:are|is) now`)

// Span records an answer that has the lines in text, from line first on, and a note that the reader
// knows all lines before and after them.
func (m *Mind) Span(first int, text, note, file string) error {
	bare := func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
	now, told := bare(file), bare(text)
	tail := len(now) - (first + len(told) - 1)
	size := len(now) // length of the text that the note refers to
	if g := oldEnd.FindStringSubmatch(note); g != nil {
		size, _ = strconv.Atoi(g[1])
	} else if tail == 0 {
		size = first - 1
	}
	was := m.parts(size)
	if was == nil {
		if m.whole == nil {
			return fmt.Errorf("%s: a reader that was never shown all lines", note)
		}
		was = bare(*m.whole)
		for i, l := range m.latest {
			l = strings.TrimSuffix(l, "\n")
			if !(i <= len(was) && was[i-1] == l) && !(i <= len(now) && now[i-1] == l) {
				return fmt.Errorf("%s: against a text that was not the last word on line %d", note, i)
			}
		}
	}
	if first < 1 || tail < 0 || first-1 > len(was) || tail > 0 && size > len(was) || tail > size {
		return fmt.Errorf("%s: %d lines are now %d, and the reader knows %d", note, size, len(now), len(was))
	}
	if !slices.Equal(slices.Concat(was[:first-1], told, was[size-tail : size][:tail]), now) {
		return fmt.Errorf("%s: this makes another text than the file", note)
	}
	m.set(file)
	return nil
}

// parts returns lines 1 to n as they were received after the last whole text, or nil if a line is
// missing.
func (m *Mind) parts(n int) []string {
	out := make([]string, 0, n)
	for i := 1; i <= n; i++ {
		l, ok := m.latest[i]
		if !ok {
			return nil
		}
		out = append(out, strings.TrimSuffix(l, "\n"))
	}
	return out
}

// Edited records the reader's own edit. The reader knows the result if it knows the lines that the
// edit touches. The numbers of later lines shift. If the reader cannot tell where the edit was
// made, its beliefs do not change.
func (m *Mind) Edited(old, new string) {
	if m.consistent() {
		m.set(Replace(*m.whole, old, new))
		return
	}
	// The reader may know some lines from an older text and some from newer texts. The newer lines
	// count.
	known, last := maps.Clone(m.latest), 0
	if len(known) == 0 && m.whole != nil {
		for i, l := range split(*m.whole) {
			known[i+1] = l
		}
	}
	for i := range known {
		last = max(last, i)
	}
	m.whole, m.latest, m.total, m.pages = nil, known, -1, ""
	for first := 1; first <= last; first++ {
		end := first
		text := ""
		for ; known[end] != ""; end++ {
			text += known[end]
		}
		if !strings.Contains(text, old) {
			first = end
			continue
		}
		lines := split(Replace(text, old, new))
		delta := len(lines) - (end - first)
		m.latest = map[int]string{}
		for i, l := range known {
			switch {
			case i < first:
				m.latest[i] = l
			case i >= end:
				m.latest[i+delta] = l
			}
		}
		for i, l := range lines {
			m.latest[first+i] = l
		}
		return
	}
}

// consistent reports whether everything that was received after the last whole text agrees with
// that text.
func (m *Mind) consistent() bool {
	if m.whole == nil {
		return false
	}
	was := split(*m.whole)
	for i, l := range m.latest {
		if i > len(was) || was[i-1] != l {
			return false
		}
	}
	return true
}

// Replace does what an edit tool does: it replaces the only occurrence of old by new.
func Replace(text, old, new string) string { return strings.Replace(text, old, new, 1) }
