package textedit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"cachebro/store/leaf/text"
)

// slip is a kind of difference that people and models do not see.
type slip struct {
	name string
	fold func(line string) string
}

var slips = []slip{
	{"no-break spaces for blanks", otherSpaces},
	{"curly quotes for straight ones", quotes.Replace},
	{"the Unicode normal form of its letters", norm.NFC.String},
	{"blanks at the end of a line", func(l string) string { return strings.TrimRight(l, " \t") }},
	{"indentation", func(l string) string { return strings.TrimLeft(l, " \t") }},
	{"tabs and blanks", func(l string) string { return strings.Join(strings.Fields(l), " ") }},
}

// all undoes all slips at once. It is tried if no single slip explains the difference.
var all = slip{"white space, quotes and the normal form of letters", func(l string) string {
	return strings.Join(strings.Fields(norm.NFC.String(quotes.Replace(l))), " ")
}}

func otherSpaces(l string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, l)
}

var quotes = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`)

// notFound returns the error for a text that is not found. If there is a place that is probably
// meant, the error says how the text differs from it and quotes the file there.
func (p plain) notFound(name, old string, e text.Encoding) error {
	if e == text.SingleByte && strings.Contains(old, "\uFFFD") {
		return refuse("leave out the characters that read_file shows as \uFFFD: they stand for bytes that are not UTF-8", "old_string does not occur in %s, which is not UTF-8", name)
	}
	file, wanted := strings.Split(p.folded, "\n"), strings.Split(old, "\n")
	for _, s := range append(slips, all) {
		if at := near(file, wanted, s.fold); len(at) == 1 {
			return refuse("the file's text there is "+quoted(file[at[0]:at[0]+len(wanted)]), "old_string does not occur in %s; line %d differs from it only in %s", name, at[0]+1, s.name)
		} else if len(at) > 1 {
			first := make([]int, len(at))
			for i, a := range at {
				first[i] = a + 1
			}
			return refuse("line "+fmt.Sprint(first[0])+" has "+quoted(file[at[0]:at[0]+len(wanted)]), "old_string does not occur in %s; lines %s differ from it only in %s", name, listed(first), s.name)
		}
	}
	if wanted[len(wanted)-1] == "" && strings.HasSuffix(p.folded, strings.TrimSuffix(old, "\n")) {
		return refuse("leave out the line end at the end of old_string", "old_string does not occur in %s, whose last line has no line end", name)
	}
	if w := all.fold(old); w != "" && strings.Contains(all.fold(p.folded), w) {
		return refuse("its lines break at other places; read them again", "old_string does not occur in %s, but would with different white space", name)
	}
	if n, k := longest(file, wanted); k > 0 {
		has := "nothing more"
		if n+k < len(file) {
			has = quoted(file[n+k : n+k+1])
		}
		return refuse(fmt.Sprintf("its first %s match at line %d; then old_string has %s and the file has %s", text.Count(k, "line"), n+1, quoted(wanted[k:k+1]), has),
			"old_string does not occur in %s", name)
	}
	return refuse("nothing in the file resembles it; read the lines that you want to change", "old_string does not occur in %s", name)
}

// near returns the lines at which wanted would be found if both texts were folded.
func near(file, wanted []string, fold func(string) string) (at []int) {
	want := make([]string, len(wanted))
	for i, l := range wanted {
		want[i] = fold(l)
	}
	if strings.Join(want, "") == "" {
		return nil
	}
	last := len(wanted) - 1
	for n := 0; n+last < len(file) && len(at) < 6; n++ {
		fits := true
		for i := 0; i <= last && fits; i++ {
			has := fold(file[n+i])
			switch {
			case last == 0:
				fits = strings.Contains(has, want[i])
			case i == 0:
				fits = strings.HasSuffix(has, want[i])
			case i == last:
				fits = strings.HasPrefix(has, want[i])
			default:
				fits = has == want[i]
			}
		}
		if fits {
			at = append(at, n)
		}
	}
	return at
}

// longest finds the place in the file where the most lines at the beginning of wanted match. It
// returns the index of the place's first line, and the number of matching lines.
func longest(file, wanted []string) (at, most int) {
	for n := range file {
		k, limit := 0, min(len(wanted)-1, len(file)-n)
		for k < limit && file[n+k] == wanted[k] && (k > 0 || strings.TrimSpace(wanted[0]) != "") {
			k++
		}
		if k > most {
			at, most = n, k
		}
	}
	return at, most
}

// quoted shows lines so that every character can be recognised.
func quoted(lines []string) string {
	t := strings.Join(lines, "\n")
	if len(t) > 400 {
		t = strings.ToValidUTF8(t[:400], "") + "…"
	}
	return strconv.QuoteToGraphic(t)
}

func listed(lines []int) string {
	var out []string
	for _, n := range lines[:min(len(lines), 5)] {
		out = append(out, strconv.Itoa(n))
	}
	if len(lines) > 5 {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}
