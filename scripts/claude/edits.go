package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"cachebro/mcp/textedit"
	"cachebro/store/leaf/text"
)

// editCase is one random edit of one random text.
type editCase struct {
	kind    string
	path    string
	content []byte
	edit    textedit.Edit
	n       int // where the client's answer to it is
}

const (
	editCases = 2000
	editBatch = 100 // of one conversation
)

// editsAlike makes random edits of random texts by the client's own Edit and by edit_file.
// Where both accept an edit and one kind of line ends and an encoding that both know leave
// no choice, the bytes must be the same; each other difference is listed by its kind.
func editsAlike(b *bench, c *checks) {
	r := rand.New(rand.NewPCG(43, 1))
	seen := map[string]int{}
	example := map[string]string{}
	same, bothRefused := 0, 0
	for batch := range editCases / editBatch {
		var cases []*editCase
		m := b.conv(fmt.Sprintf("edits%d", batch))
		var reads, edits []call
		for i := range editBatch {
			x := randomEdit(r, fmt.Sprintf("e%d-%d.txt", batch, i))
			x.n = i
			if err := os.WriteFile(filepath.Join(b.project, x.path), x.content, 0o644); err != nil {
				c.that(false, "%v", err)
				return
			}
			cases = append(cases, x)
			reads = append(reads, b.read(x.path))
			e := b.edit(x.path, x.edit.Old, x.edit.New)
			e.Input["replace_all"] = x.edit.All
			edits = append(edits, e)
		}
		m.do(reads...)
		step := m.do(edits...)
		m.say("finished")
		ended(c, b.plain(m.ready()), "a batch of edits")
		for _, x := range cases {
			theirs, err := os.ReadFile(filepath.Join(b.project, x.path))
			d := b.api.result(m.name, step, x.n)
			if err != nil || !d.found {
				c.that(false, "%s: no answer, %v", x.path, err)
				continue
			}
			ours, refusal := textedit.Apply(x.path, x.content, x.edit)
			accepted := !bytes.Equal(theirs, x.content)
			what := ""
			switch {
			case refusal != nil && !accepted:
				bothRefused++
				continue
			case refusal != nil:
				what = "only the client accepts, edit_file: " + words(refusal.Error(), x.path)
			case !accepted:
				what = "only edit_file accepts, the client: " + words(d.text, x.path)
			case bytes.Equal(ours.Content, theirs):
				same++
				continue
			default:
				what = "both accept, other bytes: " + x.why(theirs)
			}
			key := x.kind + " · " + what
			if seen[key]++; seen[key] == 1 {
				example[key] = fmt.Sprintf("%q: %q for %q, all %v\n     edit_file %q\n     client    %q", x.content, x.edit.New, x.edit.Old, x.edit.All, ours.Content, theirs)
			}
		}
	}
	for _, k := range slices.Sorted(func(yield func(string) bool) {
		for k := range seen {
			if !yield(k) {
				return
			}
		}
	}) {
		fmt.Printf("%4d %s\n     %s\n", seen[k], k, example[k])
		c.that(!strings.HasSuffix(k, unexplained), "%d × %s", seen[k], k)
	}
	c.that(same > editCases/4, "%d edits with the same bytes, %d refused by both", same, bothRefused)
}

const unexplained = "no reason known"

// why explains the client's bytes where edit_file made others: it changes what it was not
// told to change.
func (x *editCase) why(theirs []byte) string {
	e := x.edit
	lines := strings.Split(e.New, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	e.New = strings.Join(lines, "\n")
	shown, _ := text.Shown(x.content)
	if e.New == "" && !strings.HasSuffix(e.Old, "\n") && strings.Contains(strings.ReplaceAll(string(shown), "\r\n", "\n"), e.Old+"\n") {
		e.Old += "\n"
	}
	ours, err := textedit.Apply(x.path, x.content, e)
	switch {
	case err == nil && bytes.Equal(ours.Content, theirs):
		return "the client cuts blanks at the ends of new lines, and the line end after what is removed"
	case strings.Contains(x.kind, " mixed "):
		return "the client gives all lines of the file one kind of end"
	case strings.Contains(x.kind, " cr "):
		return "the client writes LF into a file of CR, or finds another place"
	}
	return unexplained
}

// words are the first ones of a refusal, without what is the single case's.
func words(s, path string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, path, "FILE"), "\n", " ")
	s, _, _ = strings.Cut(s, ";")
	s, _, _ = strings.Cut(s, "String:")
	s, _, _ = strings.Cut(s, "(lines")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return 'N'
		}
		return r
	}, s[:min(len(s), 110)]))
}

func randomEdit(r *rand.Rand, path string) *editCase {
	vocabulary := []string{"alpha", "beta", "gamma", "x = 1", "\treturn", "  y", "", "é", "日本", "{", "}", "end"}
	kinds := [][]string{{"\n"}, {"\r\n"}, {"\n", "\r\n"}, {"\r"}}
	names := []string{"lf", "crlf", "mixed", "cr"}
	k := r.IntN(9) % 4 // more of the common ones
	var b strings.Builder
	for i := range 1 + r.IntN(9) {
		for range r.IntN(3) {
			b.WriteString(vocabulary[r.IntN(len(vocabulary))] + " ")
		}
		fmt.Fprintf(&b, "%d", r.IntN(20))
		if i%2 == 0 || r.IntN(9) > 0 {
			b.WriteString(kinds[k][r.IntN(len(kinds[k]))])
		}
	}
	shown := b.String()
	x := &editCase{path: path}
	encoding := text.Encoding(r.IntN(5))
	switch encoding {
	case text.UTF8:
		x.content = []byte(shown)
	case text.UTF8Mark:
		x.content = []byte(text.Mark + shown)
	case text.UTF16LE:
		x.content, _ = text.Like([]byte("\xff\xfe"), []byte(shown))
	case text.UTF16BE:
		x.content, _ = text.Like([]byte("\xfe\xff"), []byte(shown))
	case text.SingleByte:
		x.content = []byte("caf\xe9 " + strings.NewReplacer("é", "\xe9", "日本", "\xdf").Replace(shown))
		shown = strings.NewReplacer("é", "\uFFFD", "日本", "\uFFFD").Replace(shown)
	}
	x.kind = encoding.String() + " " + names[k] + " "
	from := r.IntN(len(shown))
	for from > 0 && !utf8.RuneStart(shown[from]) {
		from--
	}
	to := min(len(shown), from+1+r.IntN(30))
	for to < len(shown) && !utf8.RuneStart(shown[to]) {
		to++
	}
	x.edit.Old = shown[from:to]
	switch r.IntN(4) {
	case 0, 1, 2: // as models write it
		x.edit.Old = strings.ReplaceAll(strings.ReplaceAll(x.edit.Old, "\r\n", "\n"), "\r", "\n")
	}
	switch r.IntN(5) {
	case 0:
		x.edit.New = "new"
	case 1:
		x.edit.New = x.edit.Old + "\nadded"
	case 2:
		x.edit.New = strings.Replace(x.edit.Old, "a", "A", 1) + "!"
	case 3:
		x.edit.New = "one\ntwo\n" + x.edit.Old
	case 4:
		x.edit.New = ""
	}
	x.edit.All = r.IntN(4) == 0
	return x
}
