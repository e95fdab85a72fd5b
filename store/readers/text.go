package readers

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/tokens"
	"cachebro/store/wire/visible"
)

// Printable returns a path in a form that is safe in text for a model. A file name may contain line
// ends and control sequences that look like a message.
func Printable(p store.Path) string {
	return visible.ForModel(string(p))
}

func unit(listing bool) string {
	if listing {
		return "item"
	}
	return "line"
}

// stub is the label of an answer without text. The field as holds the name under which the text was
// shown, if it is not path.
type stub struct {
	path, as    store.Path
	first, last int
	total       int
	elsewhere   bool
	listing     bool
}

func (s stub) label(saved int) string {
	var b strings.Builder
	b.WriteString("[unchanged · ")
	if s.as != "" {
		fmt.Fprintf(&b, "%s, read as %s · ", Printable(s.path), Printable(s.as))
	}
	if s.first == 1 && s.last >= s.total && !s.elsewhere {
		b.WriteString(text.Count(s.total, unit(s.listing)))
	} else {
		fmt.Fprintf(&b, "lines %d-%d of %d", s.first, s.last, s.total)
	}
	if s.elsewhere {
		b.WriteString(" · changed elsewhere")
	}
	return b.String() + " · " + tokens.Format(saved) + " saved]"
}

// labelled returns the label. It states the saving after subtracting the label's own tokens.
func (s stub) labelled(full int) (label string, cost int) {
	cost = tokens.EstimateString(s.label(full))
	label = s.label(max(0, full-cost))
	return label, tokens.EstimateString(label)
}

// diffLabel returns the label of a diff. It says whether a read or an edit delivered the old text.
func diffLabel(path store.Path, h proof, added, removed, before, after int, listing bool) string {
	many := unit(listing) + "s"
	since := "since your read"
	if n := len(h.from); n > 0 && h.from[n-1].edits() {
		since = "since your edit"
	}
	if h.as != "" {
		since += fmt.Sprintf(" of %s, now %s", Printable(h.as), Printable(path))
	}
	return fmt.Sprintf("[changed · +%d -%d %s · %d -> %d %s]", added, removed, since, before, after, many)
}

func pageLabel(from, to, rows, before, after int) string {
	return fmt.Sprintf("[changed · diff lines %d-%d of %d · %d -> %d lines]", from, to, rows, before, after)
}

func truncated(path store.Path, at, changes int) string {
	return fmt.Sprintf("[... diff truncated at %d lines. Full file has %d total changes. next: read_file path=%s diff_offset=%d]",
		at, changes, Printable(path), at)
}

// clockTime formats a time of day in the user's time zone.
func (s *Tracker) clockTime(ns int64) string {
	return time.Unix(0, ns).In(s.o.Location).Format("15:04")
}

// call is a tool call that showed lines to a reader, or by which the reader wrote them.
type call struct {
	Tool string `cbor:"1,keyasint,omitempty"`
	At   int64  `cbor:"2,keyasint,omitempty"` // ns
	// Changes means that the call delivered only the changes to a text that the reader held.
	Changes bool `cbor:"3,keyasint,omitempty"`
}

// edits reports whether the reader wrote the text with this call.
func (c call) edits() bool {
	switch c.Tool {
	case "Edit", "MultiEdit", "Write", "NotebookEdit", "edit_file", "write_file", "update_node":
		return true
	}
	return false
}

// maxCalls is the number of calls remembered for a range of lines. If there are that many, texts
// name only the first and the last.
const maxCalls = 8

// addCall adds calls in the order of their times, each only once.
func addCall(from []call, more ...call) []call {
	for _, c := range more {
		if c == (call{}) || slices.Contains(from, c) {
			continue
		}
		i := len(from)
		for i > 0 && from[i-1].At > c.At {
			i--
		}
		from = slices.Insert(slices.Clip(from), i, c)
		if len(from) > maxCalls {
			from = slices.Delete(from, 1, 2)
		}
	}
	return from
}

// callName names a call, such as "your Edit of 12:41". The parameter as is the name of the file at
// that time, or "" if the name is the same now.
func (s *Tracker) callName(c call, as store.Path) string {
	tool := c.Tool
	switch tool {
	case "":
		tool = "call" // saved by an older version
	case "Bash":
		tool = "Bash output"
	}
	if as != "" {
		return fmt.Sprintf("your %s of %s at %s", tool, Printable(as), s.clockTime(c.At))
	}
	return fmt.Sprintf("your %s of %s", tool, s.clockTime(c.At))
}

// howKnown names the calls by which the reader already has a text: those that delivered the text,
// and those that delivered only changes to it.
func (s *Tracker) howKnown(from []call, as store.Path) string {
	var texts, changes []string
	for _, c := range from {
		list, part := &texts, "in "+s.callName(c, as)
		switch {
		case c.Changes && c.edits():
			list, part = &changes, s.callName(c, as)
		case c.Changes:
			list, part = &changes, "the changes in "+s.callName(c, as)
		case c.edits():
			part = "after " + s.callName(c, as)
		}
		if !slices.Contains(*list, part) {
			*list = append(*list, part)
		}
	}
	switch {
	case len(from) == 0:
		return "you were given them"
	case len(from) == maxCalls, len(texts) > 2, len(changes) > 1, len(texts) == 0:
		return fmt.Sprintf("in your calls from %s to %s", s.clockTime(from[0].At), s.clockTime(from[len(from)-1].At))
	case len(changes) == 1:
		return strings.Join(texts, " and ") + " with " + changes[0]
	}
	return strings.Join(texts, " and ")
}

// notRepeated returns the sentence that replaces the text of a built-in Read.
func (s *Tracker) notRepeated(st stub, from []call) string {
	lines := fmt.Sprintf("Lines %d-%d of %s are", st.first, st.last, Printable(st.path))
	if st.first == st.last {
		lines = fmt.Sprintf("Line %d of %s is", st.first, Printable(st.path))
	}
	size := text.Count(st.total, "line")
	if st.elsewhere {
		size += "; changed elsewhere"
	}
	return fmt.Sprintf("cachebro: not repeated. %s exactly as %s (%s). Read it again to get the text.", lines, s.howKnown(from, st.as), size)
}

// spanNote returns the note for the changed lines of a built-in Read. It describes the lines before
// and after them. The lines after them may have new numbers.
func (s *Tracker) spanNote(path store.Path, h proof, first, last, total, oldTotal int) string {
	since := "you were given it"
	if n := len(h.from); n > 0 {
		since = s.callName(h.from[n-1], h.as)
	}
	shown := fmt.Sprintf("lines %d-%d are shown as they are now", first, last)
	if first == last {
		shown = fmt.Sprintf("line %d is shown as it is now", first)
	}
	note := fmt.Sprintf("cachebro: %s changed since %s; %s.", Printable(path), since, shown)
	var rest []string
	if first > 1 {
		rest = append(rest, run(1, first-1, "Line", "Lines")+" unchanged")
	}
	if last < total {
		shift := total - oldTotal
		if shift == 0 {
			rest = append(rest, run(last+1, total, "line", "lines")+" unchanged")
		} else {
			rest = append(rest, fmt.Sprintf("old %d-%d are now %d-%d, otherwise unchanged", last+1-shift, oldTotal, last+1, total))
		}
	}
	if len(rest) == 0 {
		return note
	}
	r, n := utf8.DecodeRuneInString(rest[0])
	rest[0] = string(unicode.ToUpper(r)) + rest[0][n:]
	return note + " " + strings.Join(rest, "; ") + "."
}

func run(first, last int, one, many string) string {
	if first == last {
		return fmt.Sprintf("%s %d is", one, first)
	}
	return fmt.Sprintf("%s %d-%d are", many, first, last)
}
