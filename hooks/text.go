package hooks

import (
	"fmt"
	"strings"
	"time"

	"cachebro/hooks/clients"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// notMountedLine says what works without a mount.
const notMountedLine = " cachebro  not mounted: shell changes cannot be undone; repeated reads still save tokens · cachebro mount"

// mountedLine says that the session's start mounted the project.
const mountedLine = " cachebro  mounted: every change is kept from now on · undo: cachebro undo · unmount: cachebro down"

// endedLine says that the project is not mounted any more.
const endedLine = " cachebro  no longer mounted: changes are not recorded as they happen · cachebro mount"

// deadLine says that every process that could have repaired the mount was killed.
const deadLine = " cachebro  the mount is dead because the processes that served it were killed · cachebro mount"

// troubleLine says why changes are not saved at present.
func troubleLine(why string) string {
	return " cachebro  " + cutText(clean(why), 200) + " · cachebro status"
}

// maxListed is how many files the recovery block names. The others are counted.
const maxListed = 40

// recoveryBlock returns the text that a model gets after a compaction: facts about the session, no
// orders. It is "" if nothing is worth reporting, for example if files were only read and no tokens
// were saved. Times are in loc.
func recoveryBlock(r wire.Recovery, loc *time.Location) string {
	modified := 0
	for _, f := range r.Set.Files {
		if f.Edits > 0 || f.Deleted {
			modified++
		}
	}
	if modified+len(r.Changed)+len(r.Notes) == 0 && r.Failed == "" && r.Metrics.Saved <= 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## cachebro session state\n")
	if branch := clean(r.Branch); branch != "" {
		fmt.Fprintf(&b, "Branch: %s\n", branch)
	}
	if len(r.Set.Files) > 0 {
		fmt.Fprintf(&b, "\n### Working set (%s modified, %d read)\n", text.Count(modified, "file"), len(r.Set.Files)-modified)
		for i, f := range r.Set.Files {
			if i == maxListed {
				fmt.Fprintf(&b, "- and %d more\n", len(r.Set.Files)-i)
				break
			}
			fmt.Fprintf(&b, "- %s (%s)\n", visible.ForModel(string(f.Path)), touched(f, loc))
		}
	}
	if len(r.Changed) > 0 {
		b.WriteString("\n### Changed by others since\n")
		for i, line := range r.Changed {
			if i == maxListed {
				fmt.Fprintf(&b, "- and %d more\n", len(r.Changed)-i)
				break
			}
			fmt.Fprintf(&b, "- %s\n", clean(line))
		}
	}
	if failed := clean(r.Failed); failed != "" {
		fmt.Fprintf(&b, "\n### Last failing command\n%s\n", cutText(failed, 400))
	}
	if r.Metrics.Saved > 0 {
		fmt.Fprintf(&b, "\n### Session metrics\n~%s tokens saved so far (%.1f%%)\n", text.Thousands(r.Metrics.Saved), r.Metrics.Percent)
	}
	notes := notesSection(r.Notes, r.MoreNotes)
	end := "\nAll files are cached. Files listed here may have been dropped from this conversation; " +
		"the first read of each returns its full text, later re-reads return diffs or unchanged markers."
	return cutText(b.String(), maxContext-utf16Len(notes)-len(end)) + notes + end
}

func touched(f wire.WorkingFile, loc *time.Location) string {
	by := ""
	if s := clean(f.By); s != "" {
		by = " by " + s
	}
	last := f.Last.In(loc).Format("15:04") + by
	switch {
	case f.Deleted:
		return "deleted, last " + last
	case f.Edits > 0:
		return fmt.Sprintf("%s, last %s", text.Count(f.Edits, "edit"), last)
	}
	return "read-only"
}

// idArgument returns the id of a session or prompt as an argument in a shell.
func idArgument(id string) string { return clients.ShellQuote(clean(text.ShortID(id))) }

// stopLine returns the line for the user at the end of an answer. If no tokens were saved but files
// changed, it mentions only the files. which are the arguments with which undo undoes the changes.
func stopLine(m wire.Metrics, branch string, modified int, which string) string {
	var parts []string
	if m.Saved > 0 || modified == 0 {
		parts = append(parts, amount(m.Saved)+" tokens saved")
	}
	if m.Cached > 0 {
		parts = append(parts, fmt.Sprintf("%d cached", m.Cached))
	}
	if m.Diffs > 0 {
		parts = append(parts, text.Count(m.Diffs, "diff"))
	}
	branch = clean(branch)
	if branch != "" {
		parts = append(parts, branch)
	}
	if modified > 0 {
		parts = append(parts, text.Count(modified, "file")+" changed, undo: cachebro undo "+which)
	}
	return " cachebro  " + strings.Join(parts, " · ")
}

// amount formats a number of tokens as "0" or "~4,230". Savings may be negative.
func amount(n int64) string {
	if n == 0 {
		return "0"
	}
	return "~" + text.Thousands(n)
}

// clean makes a name or a foreign text safe in one of our lines. A file name can contain newlines,
// escapes and characters that reorder text, which a model could take for cachebro's words.
func clean(s string) string {
	return visible.Line(strings.ReplaceAll(s, "\t", " "))
}
