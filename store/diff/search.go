package diff

import (
	"time"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// searchLimit is the time limit of the search for the shortest script. After it, the remaining
// lines are replaced as a whole, which is correct but longer. Texts that differ so much are sent in
// full anyway.
const searchLimit = 200 * time.Millisecond

// maxDistinct is the number of usable runes, and so the number of lines that can be distinguished.
// A text with more distinct lines is replaced as a whole.
const maxDistinct = utf8.MaxRune - surrogates

const surrogates = 0xE000 - 0xD800

// search finds the edits between two sequences of line numbers below n, with go-diff's bisection.
// The bisection works on runes, so each line number becomes a rune. Surrogates are not used,
// because go-diff converts runes to strings, which makes all surrogates equal. Numbers that occur
// in only one sequence match nothing, so they are removed first. If a file only gained new lines,
// the remaining sequences are equal.
func search(a, b []int32, n int) []Edit {
	inA, inB := make([]bool, n), make([]bool, n)
	for _, x := range a {
		inA[x] = true
	}
	for _, x := range b {
		inB[x] = true
	}
	m := &marks{goneA: make([]bool, len(a)), goneB: make([]bool, len(b))}
	keptA, atA := sift(a, inB, m.goneA)
	keptB, atB := sift(b, inA, m.goneB)
	if n > maxDistinct {
		markAll(m.goneA, atA)
		markAll(m.goneB, atB)
		return m.edits()
	}
	dmp := diffmatchpatch.New()
	dmp.DiffTimeout = searchLimit
	i, j := 0, 0
	for _, d := range dmp.DiffMainRunes(keptA, keptB, false) {
		n := utf8.RuneCountInString(d.Text)
		switch d.Type {
		case diffmatchpatch.DiffEqual:
			i, j = i+n, j+n
		case diffmatchpatch.DiffDelete:
			markAll(m.goneA, atA[i:i+n])
			i += n
		case diffmatchpatch.DiffInsert:
			markAll(m.goneB, atB[j:j+n])
			j += n
		}
	}
	return m.edits()
}

// sift returns the numbers that the other side also has, as runes, with their positions. It marks
// all other numbers as gone.
func sift(in []int32, has []bool, gone []bool) (kept []rune, at []int32) {
	kept, at = make([]rune, 0, len(in)), make([]int32, 0, len(in))
	for i, x := range in {
		if !has[x] {
			gone[i] = true
			continue
		}
		r := x
		if r >= 0xD800 {
			r += surrogates
		}
		kept = append(kept, r)
		at = append(at, int32(i))
	}
	return kept, at
}

func markAll(gone []bool, at []int32) {
	for _, i := range at {
		gone[i] = true
	}
}

// marks records by position which lines are removed and added.
type marks struct {
	goneA, goneB []bool
}

// edits joins the marks into edits. At least one pair of equal lines separates two edits.
func (m *marks) edits() []Edit {
	var out []Edit
	i, j := 0, 0
	for i < len(m.goneA) || j < len(m.goneB) {
		e := Edit{OldFrom: i, NewFrom: j}
		for i < len(m.goneA) && m.goneA[i] {
			i++
		}
		for j < len(m.goneB) && m.goneB[j] {
			j++
		}
		e.OldTo, e.NewTo = i, j
		if e.OldTo > e.OldFrom || e.NewTo > e.NewFrom {
			out = append(out, e)
		}
		for i < len(m.goneA) && j < len(m.goneB) && !m.goneA[i] && !m.goneB[j] {
			i++
			j++
		}
	}
	return out
}
