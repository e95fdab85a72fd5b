package hooks

import (
	"fmt"
	"strings"

	"cachebro/store/wire"
)

// shortLine bounds the names in a short recovery block, in characters.
const shortLine = 160

// shorterRecovery is the recovery block for a session that has not saved what the
// full one costs: one line with the names of the modified files, and what nobody
// would ask for by himself. A session that only ever read each file once would
// otherwise be left with less room than without cachebro.
func shorterRecovery(r wire.Recovery, full string) string {
	const perToken = 4 // characters, about
	if int64(utf16Len(full)/perToken) <= r.Metrics.Saved {
		return full
	}
	var names []string
	room, modified := shortLine, 0
	for _, f := range r.Set.Files {
		if f.Edits == 0 && !f.Deleted {
			continue
		}
		modified++
		name := clean(string(f.Path))
		if f.Deleted {
			name += " (deleted)"
		}
		if room -= utf16Len(name); room >= 0 {
			names = append(names, name)
		}
	}
	var b strings.Builder
	b.WriteString("## cachebro session state\n")
	if modified > 0 {
		b.WriteString("Modified: " + strings.Join(names, ", "))
		if more := modified - len(names); more > 0 {
			fmt.Fprintf(&b, " and %d more (cachebro working-set)", more)
		}
		b.WriteByte('\n')
	}
	told := modified > 0
	if len(r.Changed) > 0 {
		told = true
		b.WriteString("Changed by others since: ")
		for i, line := range r.Changed {
			if i == maxListed {
				fmt.Fprintf(&b, "; and %d more", len(r.Changed)-i)
				break
			}
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(clean(line))
		}
		b.WriteByte('\n')
	}
	if failed := clean(r.Failed); failed != "" {
		told = true
		b.WriteString("Last failing command: " + cutText(failed, 400) + "\n")
	}
	notes := notesSection(r.Notes, r.MoreNotes)
	if !told && len(r.Notes) == 0 {
		return ""
	}
	if short := cutText(b.String(), maxContext-utf16Len(notes)) + notes; utf16Len(short) < utf16Len(full) {
		return short
	}
	return full
}
