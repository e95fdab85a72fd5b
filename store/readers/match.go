package readers

import (
	"bytes"
	"strconv"
	"strings"

	"cachebro/store"
	"cachebro/store/wire/visible"
)

// match returns the lines of the view that equal a client's own text. The client reports the line
// at which the text starts, and counts an empty line after a final newline. tail reports whether
// the text includes that empty line, which proves that the reader saw the end of the file.
func (v *view) match(w Rewrite) (first, last int, tail, ok bool) {
	if v.binary {
		return 0, 0, false, false
	}
	text := []byte(w.Text)
	if w.StartLine < 1 {
		return v.matchEnd(text)
	}
	if w.StartLine > v.total+1 {
		return 0, 0, false, false
	}
	rest := v.text[len(v.slice(1, w.StartLine-1)):]
	first = w.StartLine
	if !bytes.HasPrefix(rest, text) {
		return 0, 0, false, false
	}
	lines := bytes.Count(text, []byte{'\n'})
	after := rest[len(text):]
	switch whole := len(text) > 0 && text[len(text)-1] == '\n'; {
	case len(after) == 0:
		last, tail = v.total, true
	case whole && w.Rendering != store.RenderClaudeRead:
		last = first + lines - 1
	case after[0] == '\n' && (len(text) > 0 || w.NumLines > 0):
		// The text ends before a line end. Clients strip the last line end of shell output, so if
		// it is the file's last one, the reader saw the end of the file.
		last = first + lines
		tail = len(after) == 1 && w.Rendering != store.RenderClaudeRead
	default:
		// Either the text ends in the middle of a line, or a client that numbers lines shows an
		// empty line where the content has a line with text.
		return 0, 0, false, false
	}
	if w.NumLines > 0 && !countAgrees(w, text, len(after) == 0 || tail || v.blank(last+1, first+w.NumLines-1)) {
		return 0, 0, false, false
	}
	return first, last, tail, true
}

// blank reports whether lines hold only white space. Clients strip white space from the end of a
// shell command's output, so such lines may be missing at the end of a text.
func (v *view) blank(first, last int) bool {
	return last <= v.total && len(bytes.TrimSpace(v.slice(first, last))) == 0
}

// countAgrees checks the client's number of lines against its text. For a shell command, NumLines
// is the number that was requested, and a shorter file has fewer lines.
func countAgrees(w Rewrite, text []byte, end bool) bool {
	n := bytes.Count(text, []byte{'\n'})
	if w.Rendering == store.RenderClaudeRead {
		return w.NumLines == n+1
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return w.NumLines == n || end && w.NumLines > n
}

// matchEnd matches a text that is the end of a file (tail).
func (v *view) matchEnd(text []byte) (first, last int, tail, ok bool) {
	whole := v.text
	if v.newline && !bytes.HasSuffix(text, []byte{'\n'}) {
		whole = whole[:len(whole)-1]
	}
	if len(text) == 0 || !bytes.HasSuffix(whole, text) {
		return 0, 0, false, false
	}
	if before := whole[:len(whole)-len(text)]; len(before) > 0 && before[len(before)-1] != '\n' {
		return 0, 0, false, false
	}
	n := bytes.Count(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\n'}) + 1
	return v.total - n + 1, v.total, true, true
}

// blanks are the characters that clients strip from the end of a result.
const blanks = " \t\r\n"

// delivered reports whether the final text that the model received is the decided text. The final
// text may be
//   - the text, perhaps without white space at its end,
//   - the text as numbered lines,
//   - a result of a tool that reads several files, with the text in a block.
//
// Clients append their own reminders to results. missing is the number of lines at the end that the
// model did not receive unchanged.
func delivered(final, sent string, start int, path store.Path) (missing int, ok bool) {
	missing, ok = matchesSent(final, sent, start, path)
	if ok {
		return missing, true
	}
	cut := cutReminders(final)
	if cut == final {
		return 0, false
	}
	return matchesSent(cut, sent, start, path)
}

func matchesSent(final, sent string, start int, path store.Path) (missing int, ok bool) {
	if rest, ok := textAfter(final, sent); ok && rest == "" {
		return missingLines(final, sent), true
	}
	if _, after, ok := strings.Cut("\n"+final, "\n=== "+visible.Line(string(path))+" ===\n"); ok {
		if rest, ok := textAfter(after, sent); ok && (rest == "" || strings.HasPrefix(rest, "=== ")) {
			return missingLines(strings.TrimSuffix(after, rest), sent), true
		}
	}
	// The result may contain notes from cachebro in further blocks.
	if rest, ok := textAfter(final, sent); ok && onlyNotes(rest) {
		return missingLines(strings.TrimSuffix(final, rest), sent), true
	}
	return 0, numbered(final, sent, start)
}

// textAfter returns the part of a result that follows the text sent, without the empty lines
// between the two.
func textAfter(final, sent string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(final, strings.TrimRight(sent, blanks))
	if !ok || sent == "" {
		return "", final == sent
	}
	next := strings.TrimLeft(rest, blanks)
	return next, next == "" || strings.Contains(rest[:len(rest)-len(next)], "\n")
}

// missingLines counts the lines at the end of sent that are missing or changed in final. final must
// equal sent except for white space at the end. A last line without its line end counts as
// delivered if it is not empty.
func missingLines(final, sent string) (missing int) {
	got := final[len(strings.TrimRight(final, blanks)):]
	first := true
	for line := range strings.Lines(sent[len(strings.TrimRight(sent, blanks)):]) {
		content := strings.TrimRight(line, "\r\n")
		switch {
		case missing == 0 && strings.HasPrefix(got, line):
			got = got[len(line):]
		case missing == 0 && got == content && (first || content != ""):
			got = ""
		default:
			missing++
		}
		first = false
	}
	return missing
}

// onlyNotes reports whether all lines are notes from cachebro.
func onlyNotes(s string) bool {
	for _, l := range strings.Split(strings.TrimRight(s, "\n"), "\n") {
		if !strings.HasPrefix(l, "[... ") && !strings.HasPrefix(l, "[cachebro: ") {
			return false
		}
	}
	return true
}

// cutReminders removes the reminders that clients append to a result.
func cutReminders(s string) string {
	const open, end = "\n<system-reminder>", "</system-reminder>"
	for strings.HasSuffix(strings.TrimSpace(s), end) {
		i := strings.LastIndex(s, open)
		if i < 0 {
			break
		}
		s = strings.TrimRight(s[:i], "\n")
	}
	return s
}

// numbered reports whether final has the lines of sent, each with its number from start on, in the
// format of `cat -n` or with an arrow. A last, empty line may be missing.
func numbered(final, sent string, start int) bool {
	got, want := strings.Split(strings.TrimRight(final, "\n"), "\n"), strings.Split(sent, "\n")
	if n := len(want) - 1; n > 0 && want[n] == "" && len(got) == n {
		want = want[:n]
	}
	if len(got) != len(want) {
		return false
	}
	for i, line := range got {
		line, ok := strings.CutPrefix(strings.TrimLeft(line, " "), strconv.Itoa(start+i))
		if !ok {
			return false
		}
		after, arrow := strings.CutPrefix(line, "→")
		if !arrow {
			after, ok = strings.CutPrefix(line, "\t")
		}
		line = after
		if !ok {
			return false
		}
		if line != want[i] {
			return false
		}
	}
	return true
}
