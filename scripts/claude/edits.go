package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cachebro/mcp/textedit"
	"cachebro/store/leaf/text"
)

// editCase is a random edit of a random text.
type editCase struct {
	kind    string
	path    string
	content []byte
	edit    textedit.Edit
	n       int // index of the call in its answer
}

const (
	editCases = 2000
	editBatch = 100 // number of edits in each conversation
)

// editsAlike makes random edits of random texts with the client's own Edit and with edit_file.
// Where the results differ, it finds the reasons for each case. clientEdit imitates the client step
// by step and must give exactly the client's bytes. A step is a reason for the difference if
// leaving it out changes the result.
func editsAlike(b *bench, c *checks) {
	r := rand.New(rand.NewPCG(43, 1))
	seen := map[string]int{}
	example := map[string]string{}
	same, bothRefused, foretold := 0, 0, 0
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
			expected, why := clientEdit(x.content, x.edit, everyStep)
			if why != "" {
				expected = x.content
			}
			if bytes.Equal(expected, theirs) {
				foretold++
			} else {
				seen[x.kind+" · "+unexplained]++
				example[x.kind+" · "+unexplained] = fmt.Sprintf("%q: %q for %q, all %v\n     expected   %q (%s)\n     client    %q\n     said %s", x.content, x.edit.New, x.edit.Old, x.edit.All, expected, why, theirs, d.text)
				continue
			}
			what := ""
			switch {
			case refusal != nil && !accepted:
				bothRefused++
				continue
			case refusal != nil:
				what = "only the client accepts, edit_file: " + words(refusal.Error(), x.path)
			case !accepted:
				what = "only edit_file accepts, for the client " + why
			case bytes.Equal(ours.Content, theirs):
				same++
				continue
			default:
				what = "both accept, other bytes: " + x.why(ours.Content, theirs)
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
	c.that(foretold == editCases, "what the client does is known step by step in %d of %d cases", foretold, editCases)
}

const unexplained = "no reason known"

// steps are the changes that the client makes to a text in addition to the requested edit.
type steps struct {
	cutsBlanks bool // removes blanks at the ends of the new lines
	takesEnd   bool // removes the line end after removed text
	oneEnd     bool // gives all lines the line end that most of them have
}

var everyStep = steps{true, true, true}

// blanksAtEnds matches blanks before a line end of any kind.
var blanksAtEnds = regexp.MustCompile(`[ \t]+(\r|\n|$)`)

// clientEdit changes a file's content as the client's Edit does, or returns the client's reason to
// refuse the edit.
func clientEdit(content []byte, e textedit.Edit, do steps) (after []byte, refusal string) {
	wide := bytes.HasPrefix(content, []byte("\xff\xfe"))
	raw := string(content)
	if wide {
		shown, _ := text.Shown(content)
		raw = text.Mark + string(shown)
	} else if !utf8.Valid(content) {
		return nil, "the file is not UTF-8"
	}
	crlf := strings.Count(raw, "\r\n")
	majority := crlf > strings.Count(raw, "\n")-crlf
	if do.oneEnd {
		raw = strings.ReplaceAll(raw, "\r\n", "\n")
	}
	if do.cutsBlanks {
		e.New = blanksAtEnds.ReplaceAllString(e.New, "$1")
	}
	n := strings.Count(raw, e.Old)
	switch {
	case e.Old == e.New:
		return nil, "both texts are the same"
	case n == 0 && strings.Contains(e.Old, "\r"):
		return nil, "the text has no CR, as old_string has"
	case n == 0 && strings.Contains(strings.ReplaceAll(raw, "\r", "\n"), e.Old):
		return nil, "a lone CR is no line end"
	case n == 0:
		return nil, "the text does not occur"
	case n > 1 && !e.All:
		return nil, "the text occurs several times"
	}
	if do.takesEnd && e.New == "" && !strings.HasSuffix(e.Old, "\n") && strings.Contains(raw, e.Old+"\n") {
		e.Old += "\n"
	}
	if e.All {
		raw = strings.ReplaceAll(raw, e.Old, e.New)
	} else {
		raw = strings.Replace(raw, e.Old, e.New, 1)
	}
	if do.oneEnd && majority {
		raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\n", "\r\n")
	}
	if wide {
		out, err := text.Like(content, []byte(strings.TrimPrefix(raw, text.Mark)))
		if err != nil {
			return nil, err.Error()
		}
		return out, ""
	}
	return []byte(raw), ""
}

// why names the steps that make the client's bytes differ from those of edit_file.
func (x *editCase) why(ours, theirs []byte) string {
	var reasons []string
	adjusted := x.edit
	for _, step := range []struct {
		without steps
		reason  string
	}{
		{steps{takesEnd: true, oneEnd: true}, "the client cuts blanks at the ends of new lines"},
		{steps{cutsBlanks: true, oneEnd: true}, "the client takes the line end after what is removed"},
	} {
		if other, refusal := clientEdit(x.content, x.edit, step.without); refusal != "" || !bytes.Equal(other, theirs) {
			reasons = append(reasons, step.reason)
		}
	}
	// If edit_file is given an edit that includes the two steps above, its result differs only in
	// line ends.
	if len(reasons) > 0 {
		adjusted.New = blanksAtEnds.ReplaceAllString(adjusted.New, "$1")
		shown, _ := text.Shown(x.content)
		if adjusted.New == "" && !strings.HasSuffix(adjusted.Old, "\n") && strings.Contains(strings.ReplaceAll(string(shown), "\r\n", "\n"), adjusted.Old+"\n") {
			adjusted.Old += "\n"
		}
		done, err := textedit.Apply(x.path, x.content, adjusted)
		if err != nil {
			return unexplained
		}
		ours = done.Content
	}
	our, _ := text.Shown(ours)
	their, _ := text.Shown(theirs)
	switch {
	case bytes.Equal(ours, theirs):
	case !bytes.Equal(oneEnd(our), oneEnd(their)):
		return unexplained
	case bytes.Contains(bytes.ReplaceAll(their, []byte("\r\n"), nil), []byte("\r")):
		reasons = append(reasons, "new lines end in LF in a file of CR")
	case bytes.Contains(bytes.ReplaceAll(their, []byte("\r\n"), nil), []byte("\n")) && bytes.Contains(their, []byte("\r\n")):
		return unexplained // two kinds of line ends
	default:
		reasons = append(reasons, "the client gives all lines of the file one kind of end")
	}
	if len(reasons) == 0 {
		return unexplained
	}
	return strings.Join(reasons, ", and ")
}

// oneEnd returns the text with LF for every line end.
func oneEnd(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// words returns the beginning of a refusal, without the parts that are specific to one case.
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
	k := r.IntN(9) % 4 // make the common cases more frequent
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
	case 0, 1, 2: // line ends as models write them
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
