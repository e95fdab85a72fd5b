package shown

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cachebro/store"
	"cachebro/store/tokens"
)

// Printable is a path as it may stand in a text for a model: a file name can
// carry line ends and control sequences, and so a message of its own. They are
// taken out, invalid UTF-8 is replaced.
func Printable(p store.Path) string {
	s := strings.ToValidUTF8(string(p), "\uFFFD")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func unit(listing bool) (one, many string) {
	if listing {
		return "item", "items"
	}
	return "line", "lines"
}

// stub is the label of an answer that repeats nothing. as is the name under
// which the text was shown, if that is another than path.
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
		one, many := unit(s.listing)
		b.WriteString(counted(s.total, one, many))
	} else {
		fmt.Fprintf(&b, "lines %d-%d of %d", s.first, s.last, s.total)
	}
	if s.elsewhere {
		b.WriteString(" · changed elsewhere")
	}
	return b.String() + " · " + tokens.Format(saved) + " saved]"
}

// labelled counts the label's own tokens into the saving that it names.
func (s stub) labelled(full int) (label string, cost int) {
	cost = tokens.EstimateString(s.label(full))
	label = s.label(max(0, full-cost))
	return label, tokens.EstimateString(label)
}

// diffLabel: the text rests on what was shown under the name as, "" for the
// same name.
func diffLabel(path, as store.Path, added, removed, before, after int, listing bool) string {
	_, many := unit(listing)
	since := "since your read"
	if as != "" {
		since = fmt.Sprintf("since your read of %s, now %s", Printable(as), Printable(path))
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

// clockTime is a time of day as the user's clock shows it.
func (s *Shown) clockTime(ns int64) string {
	return time.Unix(0, ns).In(s.o.Location).Format("15:04")
}

// notRepeated stands in place of a built-in Read's text.
func (s *Shown) notRepeated(st stub, at int64) string {
	what := "your Read of " + s.clockTime(at)
	if st.as != "" {
		what = fmt.Sprintf("your Read of %s at %s", Printable(st.as), s.clockTime(at))
	}
	lines := fmt.Sprintf("Lines %d-%d of %s are", st.first, st.last, Printable(st.path))
	if st.first == st.last {
		lines = fmt.Sprintf("Line %d of %s is", st.first, Printable(st.path))
	}
	size := counted(st.total, "line", "lines")
	if st.elsewhere {
		size += "; changed elsewhere"
	}
	return fmt.Sprintf("cachebro: not repeated. %s exactly as in %s (%s). Read it again to get the text.", lines, what, size)
}

// spanNote goes beside the changed lines of a built-in Read: what the lines
// before and after them are. Old lines follow..oldTotal are now shifted.
func (s *Shown) spanNote(path, as store.Path, at int64, first, last, total, oldTotal int) string {
	since := "your Read of " + s.clockTime(at)
	if as != "" {
		since = fmt.Sprintf("your Read of %s at %s", Printable(as), s.clockTime(at))
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
