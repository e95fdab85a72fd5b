package diff

import (
	"strconv"
)

// Context is the number of equal lines printed before and after a change.
const Context = 3

// Hunk is one block of a unified diff. Starts are 1-based. As patch(1) requires, an empty range
// starts at the line before it.
type Hunk struct {
	OldStart, OldLines int
	NewStart, NewLines int
	Edits              []Edit // 0-based
}

// Hunks groups the edits whose contexts overlap or touch.
func (s *Script) Hunks(context int) []Hunk {
	var out []Hunk
	for i := 0; i < len(s.Edits); {
		j := i + 1
		for j < len(s.Edits) && s.Edits[j].OldFrom-s.Edits[j-1].OldTo <= 2*context {
			j++
		}
		first, last := s.Edits[i], s.Edits[j-1]
		before := min(context, first.OldFrom)
		after := min(context, len(s.Old)-last.OldTo)
		h := Hunk{
			OldStart: first.OldFrom - before + 1, OldLines: last.OldTo + after - first.OldFrom + before,
			NewStart: first.NewFrom - before + 1, NewLines: last.NewTo + after - first.NewFrom + before,
			Edits: s.Edits[i:j],
		}
		if h.OldLines == 0 {
			h.OldStart--
		}
		if h.NewLines == 0 {
			h.NewStart--
		}
		out = append(out, h)
		i = j
	}
	return out
}

// Row is one printed line of a diff. A reader that has the old text and all rows up to this one
// knows the first Known lines of the new text. So Known tells what a diff truncated here has shown.
type Row struct {
	Text  []byte // with its prefix and final newline
	Known int
}

// Rows returns the rows of all hunks, without a file header.
func (s *Script) Rows(context int) []Row {
	var rows []Row
	for _, h := range s.Hunks(context) {
		o := h.OldStart - 1
		if h.OldLines == 0 {
			o = h.OldStart
		}
		n := h.NewStart - 1
		if h.NewLines == 0 {
			n = h.NewStart
		}
		rows = append(rows, Row{Text: header(h), Known: n})
		for _, e := range h.Edits {
			for ; o < e.OldFrom; o, n = o+1, n+1 {
				rows = appendRow(rows, ' ', s.Old[o], n+1)
			}
			for ; o < e.OldTo; o++ {
				rows = appendRow(rows, '-', s.Old[o], n)
			}
			for ; n < e.NewTo; n++ {
				rows = appendRow(rows, '+', s.New[n], n+1)
			}
		}
		for end := h.OldLines + h.OldStart - 1; o < end; o, n = o+1, n+1 {
			rows = appendRow(rows, ' ', s.Old[o], n+1)
		}
	}
	if len(rows) > 0 {
		rows[len(rows)-1].Known = len(s.New)
	}
	return rows
}

// noNewline follows the last line of a file that does not end in a newline.
const noNewline = "\\ No newline at end of file\n"

func appendRow(rows []Row, prefix byte, line []byte, known int) []Row {
	text := make([]byte, 0, len(line)+2)
	text = append(append(text, prefix), line...)
	if line[len(line)-1] == '\n' {
		return append(rows, Row{text, known})
	}
	rows = append(rows, Row{append(text, '\n'), known})
	// Without the marker that follows, the reader does not know whether the line ends in a newline.
	if prefix != '-' {
		rows[len(rows)-1].Known = known - 1
	}
	return append(rows, Row{[]byte(noNewline), known})
}

func header(h Hunk) []byte {
	b := append(make([]byte, 0, 32), "@@ -"...)
	b = strconv.AppendInt(b, int64(h.OldStart), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(h.OldLines), 10)
	b = append(b, " +"...)
	b = strconv.AppendInt(b, int64(h.NewStart), 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(h.NewLines), 10)
	return append(b, " @@\n"...)
}

// Body returns the hunks without a file header, or nothing if the texts are equal.
func (s *Script) Body(context int) []byte {
	var out []byte
	for _, r := range s.Rows(context) {
		out = append(out, r.Text...)
	}
	return out
}

// Unified returns a whole unified diff with file header, or nothing if the texts are equal. The
// names go into the header unchanged; use "/dev/null" for a missing file.
func Unified(oldName, newName string, old, new []byte, context int) []byte {
	s := Compare(old, new)
	if len(s.Edits) == 0 {
		return nil
	}
	out := append([]byte("--- "), oldName...)
	out = append(append(append(out, "\n+++ "...), newName...), '\n')
	return append(out, s.Body(context)...)
}
