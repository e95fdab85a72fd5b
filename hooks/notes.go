package hooks

import (
	"fmt"
	"strings"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// Bounds of the notes in the recovery block, in characters.
const (
	maxNote  = 240
	maxNotes = 1600
)

// notesSection lists as many notes as there is room for, one line each, most urgent first. more is
// the number of notes that are not in notes. With the id in a line the model can get the whole
// note.
func notesSection(notes []wire.Note, more int) string {
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	for i, n := range notes {
		line := noteLine(n)
		if used := utf16Len(b.String()) + utf16Len(line); used > maxNotes {
			more += len(notes) - i
			break
		}
		b.WriteString(line)
	}
	if more > 0 {
		fmt.Fprintf(&b, "- %d more: search with kind note\n", more)
	}
	return "\n### Notes\n" + b.String()
}

func noteLine(n wire.Note) string {
	about := ""
	if p := visible.ForModel(string(n.Path)); p != "" {
		about = " " + p
		if n.Gone {
			about += " (deleted)"
		}
	}
	text := clean(strings.Join(strings.Fields(n.Text), " "))
	if utf16Len(text) > maxNote {
		text = strings.TrimSpace(cutText(text, maxNote-1)) + "…"
	}
	return fmt.Sprintf("- %s [%s]%s: %s\n", clean(n.ID), clean(n.Kind), about, text)
}
