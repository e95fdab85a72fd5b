// Package textedit replaces pieces of a file's text and leaves all other bytes as they are. Models
// write LF and UTF-8 whatever the file uses. So a piece is found with any line ends, and the new
// text gets the file's encoding and the line ends around it. An edit for which that is impossible
// is refused with a Refusal.
package textedit

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"

	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// Edit replaces Old with New, in every place if All is set.
type Edit struct {
	Old, New string
	All      bool
}

// Done is the result of an Edit.
type Done struct {
	Content []byte
	Lines   []int // of the places, from 1 on
	// Old and New are the pieces with the file's line ends and encoding. They are set only if
	// exactly one place changed.
	Old, New string
}

// Refusal is the error for a refused edit.
type Refusal struct{ Why, Hint string }

func (r *Refusal) Error() string { return r.Why }

func refuse(hint, format string, a ...any) error {
	return &Refusal{fmt.Sprintf(format, a...), hint}
}

// Apply carries out an edit of a content. name is the file's name, for messages.
func Apply(name string, content []byte, e Edit) (Done, error) {
	shown, ok := text.Shown(content)
	if !ok {
		return Done{}, refuse("change it with a program for its kind of file", "%s is binary", name)
	}
	if strings.HasPrefix(string(shown), text.Mark) {
		e.Old, e.New = strings.TrimPrefix(e.Old, text.Mark), strings.TrimPrefix(e.New, text.Mark)
	}
	if e.Old == "" {
		return Done{}, refuse("give the text to replace; a new file is made with write_file", "old_string is empty")
	}
	p := plainOf(string(shown))
	old, repl := p.fold(e.Old), p.fold(e.New)
	if old == repl {
		hint := "nothing was changed"
		if e.Old != e.New {
			hint = "only line ends differ, and an edit preserves the file's own; convert them with a program like dos2unix"
		}
		return Done{}, refuse(hint, "old_string and new_string are the same")
	}
	at := places(p.folded, old)
	if len(at) > 1 && !e.All && strings.Contains(e.Old, "\r") {
		at = p.exact(at, len(old), e.Old)
	}
	switch {
	case len(at) == 0:
		return Done{}, p.notFound(name, old, text.EncodingOf(content))
	case len(at) > 1 && !e.All:
		lines := make([]int, len(at))
		for i, a := range at {
			lines[i] = p.lineAt(a)
		}
		return Done{}, refuse("include more of the text around the place that you mean, or set replace_all=true",
			"old_string occurs %d times in %s (lines %s)", len(at), name, listed(lines))
	}
	if text.EncodingOf(content) == text.SingleByte && addsLetters(e.Old, e.New) {
		return Done{}, refuse("only ASCII can be written into it; convert it with iconv first, or write the letters with a program that knows its encoding",
			"%s is not UTF-8, and new_string adds letters that are not ASCII", name)
	}
	d := Done{}
	var out strings.Builder
	from := 0
	for _, a := range at {
		start, end := p.place(a), p.place(a+len(old))
		d.Lines = append(d.Lines, p.lineAt(a))
		d.Old, d.New = p.text[start:end], p.spelled(start, end, repl)
		out.WriteString(p.text[from:start])
		out.WriteString(d.New)
		from = end
	}
	out.WriteString(p.text[from:])
	var err error
	d.Content, err = text.Like(content, []byte(out.String()))
	if errors.Is(err, text.ErrDamaged) {
		return Done{}, refuse("repair it with a program that knows its encoding", "%s is damaged UTF-16, which cannot be written back as it is", name)
	}
	if err == nil && bytes.Equal(d.Content, content) {
		err = refuse("only line ends differ, and an edit preserves the file's own", "old_string and new_string are the same")
	}
	return d, err
}

// Whole converts a new text to the encoding of a file's content. If all line ends of the content
// are CRLF and all line ends of the text are LF, it converts the text to CRLF. kept names what was
// preserved, or is "".
func Whole(content []byte, new string) (after []byte, kept string, err error) {
	shown, ok := text.Shown(content)
	if !ok || len(content) == 0 {
		return []byte(new), "", nil
	}
	var what []string
	e := text.EncodingOf(content)
	switch e {
	case text.UTF8Mark:
		if !strings.HasPrefix(new, text.Mark) {
			new = text.Mark + new
		}
		what = append(what, "byte order mark")
	case text.UTF16LE, text.UTF16BE:
		new = strings.TrimPrefix(new, text.Mark)
		what = append(what, e.String())
	}
	if ends, _ := text.EndsOf(shown); ends == text.CRLF && strings.Contains(new, "\n") && !strings.Contains(new, "\r") {
		new = strings.ReplaceAll(new, "\n", "\r\n")
		what = append(what, "CRLF line ends")
	}
	if e == text.UTF16LE || e == text.UTF16BE {
		after, err = text.Like(content[:2], []byte(new))
	} else {
		after = []byte(new)
	}
	return after, strings.Join(what, " and "), err
}

func addsLetters(old, new string) bool {
	return strings.ContainsFunc(new, func(r rune) bool { return r >= 0x80 && !strings.ContainsRune(old, r) })
}

// plain holds a text, the same text with each line end folded into LF, and the offsets that map
// places in the folded text back. loneCRs means that a lone CR is a line end too. Otherwise a CR in
// a given text is an ordinary character.
type plain struct {
	text    string
	folded  string
	twos    []int // places in folded of line ends that are two bytes in text, ascending
	loneCRs bool
}

func plainOf(t string) plain {
	p := plain{text: t, folded: t}
	if !strings.Contains(t, "\r") {
		return p
	}
	var b strings.Builder
	b.Grow(len(t))
	for i := 0; i < len(t); i++ {
		switch {
		case t[i] != '\r':
			b.WriteByte(t[i])
			continue
		case i+1 < len(t) && t[i+1] == '\n':
			p.twos = append(p.twos, b.Len())
			i++
		default:
			p.loneCRs = true
		}
		b.WriteByte('\n')
	}
	p.folded = b.String()
	return p
}

// fold folds a given text in the same way, to look for it in folded.
func (p plain) fold(t string) string {
	t = strings.ReplaceAll(t, "\r\n", "\n")
	if p.loneCRs {
		t = strings.ReplaceAll(t, "\r", "\n")
	}
	return t
}

// place returns the offset in text of an offset in folded.
func (p plain) place(at int) int { return at + sort.SearchInts(p.twos, at) }

func (p plain) lineAt(at int) int { return 1 + strings.Count(p.folded[:at], "\n") }

// exact returns the places where the text equals old byte for byte, or all places if there are
// none.
func (p plain) exact(at []int, n int, old string) []int {
	var kept []int
	for _, a := range at {
		if p.text[p.place(a):p.place(a+n)] == old {
			kept = append(kept, a)
		}
	}
	if kept == nil {
		return at
	}
	return kept
}

// places returns the offsets that strings.ReplaceAll would replace.
func places(in, old string) (at []int) {
	for from := 0; ; {
		i := strings.Index(in[from:], old)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(old)
	}
}

// spelled returns repl with the file's line ends. An unchanged line keeps its line end. A line that
// replaces another gets the line end of the replaced one. A new line gets the line end of the line
// before it.
func (p plain) spelled(start, end int, repl string) string {
	was, wasEnds := split(p.text[start:end], p.loneCRs)
	is, isEnds := split(repl, false)
	if len(is) == 1 {
		return repl
	}
	ends := make([]string, len(is))
	old, new := lines(was), lines(is)
	sc := diff.CompareLines(old, new)
	o, n := 0, 0
	same := func(to int) {
		for ; o < to; o, n = o+1, n+1 {
			ends[n] = wasEnds[o]
		}
	}
	for _, e := range sc.Edits {
		same(e.OldFrom)
		for i := e.NewFrom; i < e.NewTo; i++ {
			if k := e.OldFrom + i - e.NewFrom; k < e.OldTo {
				ends[i] = wasEnds[k]
			}
		}
		o, n = e.OldTo, e.NewTo
	}
	same(len(was))
	last := ""
	var out strings.Builder
	for i, line := range is {
		out.WriteString(line)
		if isEnds[i] == "" {
			break
		}
		if ends[i] == "" && last == "" {
			last = p.endNear(end)
		}
		if ends[i] != "" {
			last = ends[i]
		}
		out.WriteString(last)
	}
	return out.String()
}

// endNear returns the line end after a piece, or else the one before it, or else LF.
func (p plain) endNear(end int) string {
	if i := strings.IndexAny(p.text[end:], "\r\n"); i >= 0 && (p.loneCRs || p.text[end+i] == '\n' || strings.HasPrefix(p.text[end+i:], "\r\n")) {
		return endAt(p.text[end+i:])
	}
	i := strings.LastIndexAny(p.text[:end], "\r\n")
	if i < 0 {
		return "\n"
	}
	if i > 0 && p.text[i-1:i+1] == "\r\n" {
		i--
	}
	return endAt(p.text[i:])
}

func endAt(t string) string {
	if strings.HasPrefix(t, "\r\n") {
		return "\r\n"
	}
	return t[:1]
}

// split cuts a text at its line ends. The last piece has none.
func split(t string, loneCRs bool) (pieces, ends []string) {
	for {
		i := strings.IndexByte(t, '\n')
		if cr := strings.IndexByte(t, '\r'); loneCRs && cr >= 0 && (i < 0 || cr < i) {
			i = cr
		}
		if i < 0 {
			return append(pieces, t), append(ends, "")
		}
		end := endAt(t[i:])
		if i > 0 && t[i] == '\n' && t[i-1] == '\r' {
			i, end = i-1, "\r\n"
		}
		pieces, ends = append(pieces, t[:i]), append(ends, end)
		t = t[i+len(end):]
	}
}

func lines(pieces []string) [][]byte {
	out := make([][]byte, len(pieces))
	for i, s := range pieces {
		out[i] = []byte(s)
	}
	return out
}
