package diff

import (
	"bytes"

	"cachebro/store/leaf/text"
)

// Edit replaces old lines [OldFrom, OldTo) by new lines [NewFrom, NewTo). Lines are 0-based. One of
// the two ranges may be empty.
type Edit struct {
	OldFrom, OldTo int
	NewFrom, NewTo int
}

// Script holds the edits that turn one text into another. It is immutable. Its lines alias the
// compared texts.
type Script struct {
	Old, New [][]byte
	Edits    []Edit // ascending, never adjacent
}

// Compare finds a short edit script from old to new. It compares UTF-16 by characters.
func Compare(old, new []byte) *Script {
	old, _ = text.Shown(old)
	new, _ = text.Shown(new)
	return CompareLines(Lines(old), Lines(new))
}

// CompareLines compares texts that are already divided into lines.
func CompareLines(old, new [][]byte) *Script {
	return &Script{Old: old, New: new, Edits: compareLines(old, new)}
}

// Added returns the number of new lines in edits.
func (s *Script) Added() int {
	n := 0
	for _, e := range s.Edits {
		n += e.NewTo - e.NewFrom
	}
	return n
}

// Removed returns the number of old lines in edits.
func (s *Script) Removed() int {
	n := 0
	for _, e := range s.Edits {
		n += e.OldTo - e.OldFrom
	}
	return n
}

// Without returns the new text, but keeps the old lines listed in stay and leaves out the new lines
// listed in out. It returns false if one of these lines is in no edit.
func (s *Script) Without(stay, out []int) (without []byte, ok bool) {
	stays, drops := map[int]bool{}, map[int]bool{}
	for _, n := range stay {
		stays[n] = true
	}
	for _, n := range out {
		drops[n] = true
	}
	left := len(stays) + len(drops)
	end := "\n"
	if len(s.New) > 0 && bytes.HasSuffix(s.New[0], []byte("\r\n")) {
		end = "\r\n"
	}
	add := func(l []byte) {
		if n := len(without); n > 0 && without[n-1] != '\n' { // it was the last line of its text
			without = append(without, end...)
		}
		without = append(without, l...)
	}
	at := 0
	for _, e := range s.Edits {
		for _, l := range s.New[at:e.NewFrom] {
			add(l)
		}
		for n := e.OldFrom; n < e.OldTo; n++ {
			if stays[n] {
				add(s.Old[n])
				left--
			}
		}
		for n := e.NewFrom; n < e.NewTo; n++ {
			if drops[n] {
				left--
			} else {
				add(s.New[n])
			}
		}
		at = e.NewTo
	}
	for _, l := range s.New[at:] {
		add(l)
	}
	return without, left == 0
}

// Unmoved reports whether new lines first to last (1-based, inclusive) equal old lines first to
// last, byte for byte, and lie outside every edit.
func (s *Script) Unmoved(first, last int) bool {
	shift := 0
	for _, e := range s.Edits {
		if e.NewFrom >= last {
			break
		}
		// An edit that adds nothing still counts between first and last, because it removes old
		// lines there.
		if e.NewTo >= first && (e.NewTo > e.NewFrom || e.NewFrom >= first) {
			return false
		}
		shift = e.NewTo - e.OldTo
	}
	return shift == 0 && first >= 1 && last <= len(s.New)
}

// compareLines numbers the lines, trims the common beginning and end of both texts, searches the
// rest and returns tidied edits.
func compareLines(a, b [][]byte) []Edit {
	lo := 0
	for lo < len(a) && lo < len(b) && bytes.Equal(a[lo], b[lo]) {
		lo++
	}
	ea, eb := len(a), len(b)
	for ea > lo && eb > lo && bytes.Equal(a[ea-1], b[eb-1]) {
		ea--
		eb--
	}
	if lo == ea && lo == eb {
		return nil
	}
	t := make(interner, ea-lo)
	na, nb := make([]int32, ea-lo), make([]int32, eb-lo)
	for i := range na {
		na[i] = t.number(a[lo+i])
	}
	for i := range nb {
		nb[i] = t.number(b[lo+i])
	}
	edits := search(na, nb, len(t))
	for i := range edits {
		edits[i].OldFrom += lo
		edits[i].OldTo += lo
		edits[i].NewFrom += lo
		edits[i].NewTo += lo
	}
	return tidy(a, b, edits)
}
