package hooks

import (
	"fmt"
	"strings"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// What notes may take of the recovery block, in characters: of one, and of all.
const (
	maxNote  = 240
	maxNotes = 1600
)

// notesSection lists what was noted, one line each, as many as there is room
// for, the most urgent first; more counts the notes that are not among them.
// The whole of one can be had by its id.
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
	if p := visible.Told(string(n.Path)); p != "" {
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
