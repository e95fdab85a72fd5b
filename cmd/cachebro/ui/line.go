package ui

import (
	"bytes"
	"fmt"
	"html/template"
	"unicode"
	"unicode/utf8"

	"cachebro/store/diff"
	"cachebro/store/wire/visible"
)

const maxLine = 4000

// span is a piece of a line in one colour, up to end.
type span struct {
	end   int
	class string
}

// mark is a piece of a line that is highlighted, because it was changed or matches a search.
type mark struct{ from, to int }

// line returns one line of a file as HTML, with colours and marks. It spells out control
// characters and invisible characters, and shows only the first maxLine bytes.
func line(l []byte, colours []span, marks []mark) template.HTML {
	l = bytes.TrimSuffix(l, []byte("\n"))
	cut := 0
	if len(l) > maxLine {
		cut = len(l) - maxLine
		l = l[:maxLine]
	}
	var b bytes.Buffer
	class, marked := "", false // the spans that are open
	for i := 0; i < len(l); {
		for len(colours) > 0 && colours[0].end <= i {
			colours = colours[1:]
		}
		for len(marks) > 0 && marks[0].to <= i {
			marks = marks[1:]
		}
		now := ""
		if len(colours) > 0 {
			now = colours[0].class
		}
		in := len(marks) > 0 && marks[0].from <= i
		if now != class || in != marked {
			closeSpans(&b, class, marked)
			if in {
				b.WriteString("<mark>")
			}
			if now != "" {
				b.WriteString(`<span class="` + now + `">`)
			}
			class, marked = now, in
		}
		r, n := utf8.DecodeRune(l[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `<i class="ctl">&lt;%02X&gt;</i>`, l[i])
		case r == '\t':
			b.WriteByte('\t')
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `<i class="ctl">^%s</i>`, template.HTMLEscapeString(string(rune(byte(r)^0x40))))
		case visible.Acts(r) || !unicode.IsPrint(r) && r != ' ':
			fmt.Fprintf(&b, `<i class="ctl">&lt;U+%04X&gt;</i>`, r)
		case r == '<', r == '>', r == '&', r == '"', r == '\'':
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.Write(l[i : i+n])
		}
		i += n
	}
	closeSpans(&b, class, marked)
	if cut > 0 {
		fmt.Fprintf(&b, `<i class="ctl">… %d bytes more</i>`, cut)
	}
	return template.HTML(b.String()) // made only of escaped text
}

func closeSpans(b *bytes.Buffer, class string, marked bool) {
	if class != "" {
		b.WriteString("</span>")
	}
	if marked {
		b.WriteString("</mark>")
	}
}

// changedWords returns the words that differ between two lines. It returns nothing if the lines
// have little in common, because marks would then not help.
func changedWords(old, new []byte) (del, add []mark) {
	if len(old) > maxLine || len(new) > maxLine {
		return nil, nil
	}
	a, b := wordsOf(old), wordsOf(new)
	sc := diff.CompareLines(a, b)
	pos := func(words [][]byte) []int {
		at := make([]int, len(words)+1)
		for i, w := range words {
			at[i+1] = at[i] + len(w)
		}
		return at
	}
	pa, pb := pos(a), pos(b)
	gone, come := 0, 0
	for _, e := range sc.Edits {
		if e.OldTo > e.OldFrom {
			del = append(del, mark{pa[e.OldFrom], pa[e.OldTo]})
			gone += pa[e.OldTo] - pa[e.OldFrom]
		}
		if e.NewTo > e.NewFrom {
			add = append(add, mark{pb[e.NewFrom], pb[e.NewTo]})
			come += pb[e.NewTo] - pb[e.NewFrom]
		}
	}
	if 10*gone > 7*len(old) || 10*come > 7*len(new) {
		return nil, nil
	}
	return del, add
}

// wordsOf splits a line into words, runs of blanks, and single other characters.
func wordsOf(l []byte) [][]byte {
	kind := func(r rune) int {
		switch {
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return 1
		case r == ' ' || r == '\t':
			return 2
		}
		return 0
	}
	var out [][]byte
	for i := 0; i < len(l); {
		r, n := utf8.DecodeRune(l[i:])
		j, k := i+n, kind(r)
		for k != 0 && j < len(l) {
			r, n := utf8.DecodeRune(l[j:])
			if kind(r) != k {
				break
			}
			j += n
		}
		out = append(out, l[i:j:j])
		i = j
	}
	return out
}
