package lost

import (
	"strings"
	"unicode"

	"cachebro/store/diff"
)

// step is one version of the content. The first step is the version that a reader was shown, and
// the last step is the version that the reader's write replaced.
type step struct {
	text []byte
	// other reports whether somebody else made this step from the previous one.
	other bool
}

// missing is a change of one line, made by others, that a write lost. step is the index of the step
// that added the line or, if restored is true, removed it.
type missing struct {
	line     string
	step     int
	restored bool // the step removed the line, and the write added it again
}

// compare lists the changes by others that result lost. It returns each line that others added and
// result lacks, and each line that others removed and result contains again. The writer made result
// from steps[0]. known are lines that the reader was shown in another way.
func compare(steps []step, result []byte, known [][]byte) (out []missing) {
	// addedBy[i] is the index of the step by which somebody else added line i of the current text,
	// or 0. removed[n] lists the lines that others removed in step n, except those that they had
	// added themselves. A line is an index in the text before the step.
	first := diff.Lines(steps[0].text)
	addedBy := make([]int, len(first))
	mine := map[string]int{} // by line: its greatest count in any one of the reader's own texts
	own := func(lines [][]byte) {
		n := map[string]int{}
		for i, l := range lines {
			if addedBy[i] == 0 {
				s := essence(l)
				n[s]++
				mine[s] = max(mine[s], n[s])
			}
		}
	}
	own(first)
	removed := make([]map[int]bool, len(steps))
	for n := 1; n < len(steps); n++ {
		var next []int
		at := 0
		sc := diff.Compare(steps[n-1].text, steps[n].text)
		for _, e := range sc.Edits {
			next = append(next, addedBy[at:e.OldFrom]...)
			made := 0
			if steps[n].other {
				made = n
				for i := e.OldFrom; i < e.OldTo; i++ {
					if addedBy[i] == 0 || mine[essence(sc.Old[i])] > 0 {
						if removed[n] == nil {
							removed[n] = map[int]bool{}
						}
						removed[n][i] = true
					}
				}
			}
			for range e.NewTo - e.NewFrom {
				next = append(next, made)
			}
			at = e.OldTo
		}
		addedBy = append(next, addedBy[at:]...)
		own(sc.New)
	}
	last := steps[len(steps)-1].text
	before, after := counted(last), counted(result)
	wasShown := map[string]bool{}
	for _, l := range known {
		wasShown[essence(l)] = true
	}
	sc := diff.Compare(last, result)
	for _, e := range sc.Edits {
		for i := e.OldFrom; i < e.OldTo; i++ {
			s := essence(sc.Old[i])
			gone := before.lines[s] > mine[s] && !after.has(s, before)
			if gone && addedBy[i] > 0 && hasWords(s) && !wasShown[s] {
				out = append(out, missing{line: string(sc.Old[i]), step: addedBy[i]})
			}
		}
	}
	for n, places := range removed {
		if len(places) == 0 {
			continue
		}
		sc := diff.Compare(steps[n-1].text, result)
		for i := range unchanged(sc) {
			if s := essence(sc.Old[i]); places[i] && hasWords(s) && after.lines[s] > before.lines[s] && !cameBack(steps[n:], s) {
				out = append(out, missing{line: string(sc.Old[i]), step: n, restored: true})
			}
		}
	}
	return out
}

// cameBack reports whether a line that the first step removed was present again after a later
// step.
func cameBack(steps []step, s string) bool {
	most := -1
	for _, o := range steps {
		n := counted(o.text).lines[s]
		if most < 0 {
			most = n
		} else if n > most {
			return true
		}
	}
	return false
}

// unchanged yields the indexes of the old lines that a script does not change.
func unchanged(sc *diff.Script) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		at := 0
		for _, e := range append(sc.Edits[:len(sc.Edits):len(sc.Edits)], diff.Edit{OldFrom: len(sc.Old)}) {
			for ; at < e.OldFrom; at++ {
				if !yield(at) {
					return
				}
			}
			at = e.OldTo
		}
	}
}

// counts is the number of times that a text has each line.
type counts struct {
	lines map[string]int
	all   string
}

func counted(text []byte) counts {
	c := counts{lines: map[string]int{}}
	var all strings.Builder
	for _, l := range diff.Lines(text) {
		s := essence(l)
		c.lines[s]++
		all.WriteString(s)
	}
	c.all = all.String()
	return c
}

// minWrappedLength is the smallest length, in bytes, of a line that is also searched for across
// line breaks, because a formatter may have wrapped it. Shorter lines would match by accident.
const minWrappedLength = 12

// has reports whether c's text contains s at least as often as before's text. It looks for whole
// lines and, if s is long enough, for s at any position.
func (c counts) has(s string, before counts) bool {
	return c.lines[s] >= before.lines[s] || len(s) >= minWrappedLength && strings.Count(c.all, s) >= strings.Count(before.all, s)
}

// essence returns a line without the characters that formatters change.
func essence(line []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("\"'`,;", r) {
			return -1
		}
		return r
	}, string(line))
}

// hasWords reports whether a line contains a letter or digit, not only brackets and the like.
func hasWords(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}
