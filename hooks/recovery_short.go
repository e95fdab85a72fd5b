package hooks

import (
	"context"
	"fmt"
	"strings"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// shortLine bounds the names in a short recovery block, in characters.
const shortLine = 160

// shortListed is how many changes by others a short recovery block names.
const shortListed = 8

// paidRecovery returns the most detailed recovery block that costs no more tokens than the session
// saved: the whole block, a line with the modified files' names, or no file names. Facts that a
// model would not ask for (changes by others, the last failing command, notes) are always included.
// The daemon records the cost of a text before it is printed. Without this limit, a session that reads
// each file once would have less room in its context than without cachebro.
func (c *call) paidRecovery(ctx context.Context, r wire.Recovery) string {
	for _, text := range []string{recoveryBlock(r, c.env.Now().Location()), shortRecovery(r, modifiedNames(r))} {
		if text != "" && c.afford(ctx, "recovery", text) {
			return text
		}
	}
	text := shortRecovery(r, "")
	c.spend(ctx, "recovery", text)
	return text
}

// modifiedNames returns a line with the names of the modified files, or "" if there are none.
func modifiedNames(r wire.Recovery) string {
	var names []string
	room, modified := shortLine, 0
	for _, f := range r.Set.Files {
		if f.Edits == 0 && !f.Deleted {
			continue
		}
		modified++
		name := visible.ForModel(string(f.Path))
		if f.Deleted {
			name += " (deleted)"
		}
		if room -= utf16Len(name); room >= 0 {
			names = append(names, name)
		}
	}
	if modified == 0 {
		return ""
	}
	line := "Modified: " + strings.Join(names, ", ")
	if more := modified - len(names); more > 0 {
		line += fmt.Sprintf(" and %d more (cachebro working-set)", more)
	}
	return line + "\n"
}

// shortRecovery returns the line with names and the facts that are always included, or "".
func shortRecovery(r wire.Recovery, names string) string {
	var b strings.Builder
	b.WriteString("## cachebro session state\n")
	b.WriteString(names)
	hasFacts := names != ""
	if len(r.Changed) > 0 {
		hasFacts = true
		b.WriteString("Changed by others since: ")
		for i, line := range r.Changed {
			if i == shortListed {
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
		hasFacts = true
		b.WriteString("Last failing command: " + cutText(failed, 400) + "\n")
	}
	notes := notesSection(r.Notes, r.MoreNotes)
	if !hasFacts && len(r.Notes) == 0 {
		return ""
	}
	return cutText(b.String(), maxContext-utf16Len(notes)) + notes
}
