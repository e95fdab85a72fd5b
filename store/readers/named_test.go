package readers_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// named is a client that passes the name of the tool with each call. Its calls are one minute
// apart.
type named struct {
	*client
	t *testing.T
}

func (n *named) step(what string, got readers.Answer, want ...string) {
	n.t.Helper()
	text := got.Text + " | " + got.Note
	for _, w := range want {
		if !strings.Contains(text, w) {
			n.t.Errorf("%s: %s %q does not say %q", what, got.Kind, text[:min(len(text), 300)], w)
		}
	}
	n.p.now = n.p.now.Add(time.Minute)
}

// ask calls a tool that shows lines of f, and commits the call. If first is 1 and count is 0, the
// tool shows the whole file.
func (n *named) ask(tool string, first, count int) readers.Answer {
	n.t.Helper()
	text := string(n.p.files["f"])
	rewrite := clientRead(text, first, count)
	if tool == "Bash" {
		rewrite.Rendering, rewrite.NumLines = "raw/1", count
		if count == 0 {
			rewrite.Text = strings.TrimSuffix(text, "\n")
		}
	}
	n.uses++
	h := store.Hash(sha256.Sum256([]byte(text)))
	q := readers.Request{Reader: n.id, Known: true, Path: "f", Hash: h, Content: func() ([]byte, error) { return []byte(text), nil },
		Pending: true, ToolUse: n.use(), Tool: tool, Rewrite: rewrite}
	a, err := n.p.shown.Decide(context.Background(), q)
	if err != nil {
		n.t.Fatal(err)
	}
	final := a.Text
	if a.Kind == wire.ReadKeep {
		final = rewrite.Text
	}
	n.p.shown.Commit(n.id, []wire.CommitCall{{ToolUse: n.use(), Text: final}})
	return a
}

func (n *named) edit(tool, old, new string) {
	n.t.Helper()
	before := string(n.p.files["f"])
	after := conformance.Replace(before, old, new)
	if tool == "Write" {
		after = new
	}
	n.p.Write(n.t, "f", after)
	n.uses++
	if err := n.p.shown.OwnEdit(context.Background(), readers.Edit{
		Reader: n.id, Known: true, Path: "f", Before: sha256.Sum256([]byte(before)), After: sha256.Sum256([]byte(after)),
		Content: func() ([]byte, error) { return []byte(after), nil }, Old: old, New: new, Whole: tool == "Write", ToolUse: n.use(), Tool: tool,
	}); err != nil {
		n.t.Fatal(err)
	}
	n.p.now = n.p.now.Add(time.Minute)
}

// A label names the call by which the reader knows the lines. After the reader's own Edit or Write,
// this is the Edit or Write. Output of cat is not called a Read.
func TestSentencesNameTheCall(t *testing.T) {
	begin := func() *named { // at 12:40
		n := &named{newClient(t), t}
		n.p.Write(t, "f", conformance.Text(100))
		return n
	}
	line := func(n *named, i int) string { return strings.Split(string(n.p.files["f"]), "\n")[i-1] }

	n := begin()
	n.step("12:40", n.ask("Read", 1, 0))
	n.edit("Edit", line(n, 10), "edited")
	if _, _, how, _ := n.p.shown.ShownSince(n.id, "f"); how != "your Edit of 12:41" {
		t.Errorf("since %q", how)
	}
	n.step("Read after Edit", n.ask("Read", 1, 0), "Lines 1-100 of f are exactly as in your Read of 12:40 with your Edit of 12:41 (100 lines)")
	n.step("in full", n.ask("Read", 1, 0))
	n.step("cat", n.ask("Bash", 1, 0), "exactly as in your Read of 12:43 (")

	n = begin()
	n.edit("Write", "", conformance.Text(120))
	n.step("cat after Write", n.ask("Bash", 1, 0), "exactly as after your Write of 12:40 (120 lines)")
	n.p.Write(t, "f", conformance.WithLine(string(n.p.files["f"]), 50, "sed"))
	n.step("changed after Write", n.ask("Read", 1, 0), "f changed since your Write of 12:40;", "line")
	// The Read of 12:42 delivered only the lines around the change.
	n.step("a part of it", n.ask("Read", 1, 60), "Lines 1-60 of f are exactly as after your Write of 12:40 with the changes in your Read of 12:42 (120 lines)")

	n = begin()
	n.step("12:40", n.ask("Read", 1, 50))
	n.step("12:41", n.ask("Read", 51, 0))
	n.p.Write(t, "f", conformance.WithLine(string(n.p.files["f"]), 50, "sed"))
	n.step("changed", n.ask("Read", 1, 0), "f changed since your Read of 12:41;")
	n.step("two parts and a change", n.ask("Bash", 1, 40), "exactly as in your Read of 12:40 and in your Read of 12:41 with the changes in your Read of 12:42 (100 lines)")
	n.p.Write(t, "f", conformance.WithLine(string(n.p.files["f"]), 90, "sed"))
	n.step("a stub brings nothing", n.ask("Read", 10, 20), "changed elsewhere", "exactly as in your Read of 12:40 and in your Read of 12:41 with the changes in your Read of 12:42")
	n.step("and is not named", n.ask("Bash", 10, 19), "exactly as in your Read of 12:40 and in your Read of 12:41 with the changes in your Read of 12:42")

	n = begin()
	n.step("12:40", n.ask("Bash", 1, 0))
	n.step("Read after cat", n.ask("Read", 1, 0), "exactly as in your Bash output of 12:40 (100 lines)")

	n = begin()
	n.step("12:40", n.ask("Read", 1, 50))
	n.step("12:41", n.ask("Read", 51, 0))
	n.step("two parts", n.ask("Read", 1, 0), "exactly as in your Read of 12:40 and in your Read of 12:41 (100 lines)")

	n = begin()
	n.step("12:40", n.ask("Read", 1, 0))
	n.p.Rename(t, "f", "g")
	n.p.files["f"] = n.p.files["g"]
	q := readers.Request{Reader: n.id, Known: true, Path: "g", Renamed: []store.Path{"f"}, Hash: sha256.Sum256(n.p.files["g"]), Tool: "Read",
		Content: func() ([]byte, error) { return n.p.files["g"], nil }, Pending: true, ToolUse: "last", Rewrite: clientRead(string(n.p.files["g"]), 1, 0)}
	a, err := n.p.shown.Decide(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	n.step("renamed", a, "Lines 1-100 of g are exactly as in your Read of f at 12:40 (100 lines)")

	n = begin()
	for i := range 4 {
		n.step(fmt.Sprint(i), n.ask("Read", 1+25*i, 25))
	}
	n.step("many parts", n.ask("Read", 1, 0), "exactly as in your calls from 12:40 to 12:43 (100 lines)")
}

// A span (the lines around a change) ends in a line with text, because clients strip blank lines
// from the end of an output.
func TestSpansEndInText(t *testing.T) {
	n := &named{newClient(t), t}
	n.p.Write(t, "f", conformance.Text(60)+"\n\n"+conformance.Text(60))
	n.ask("Read", 1, 0)
	n.p.Write(t, "f", conformance.WithLine(string(n.p.files["f"]), 59, "sed"))
	a := n.ask("Bash", 1, 0)
	if n.step("changed", a, "lines 56-63 are shown"); a.Kind != wire.ReadSpan {
		t.Errorf("%s", a.Kind)
	}
	if a = n.ask("Bash", 5, 10); a.Kind != wire.ReadUnchanged {
		t.Errorf("after the span: %s", a.Kind)
	}
}

// Clients strip white space at the end of an output. No later answer relies on lines that the
// model did not receive.
func TestOnlyWhatWasDeliveredCounts(t *testing.T) {
	long := conformance.Text(40)
	for _, c := range []struct {
		name, content, final string
		held                 int // number of lines of content that the model received
	}{
		{"whole", long, long, 40},
		{"without the last line's end", long, strings.TrimSuffix(long, "\n"), 40},
		{"two empty lines at the end", long + "\n\n", strings.TrimSuffix(long, "\n"), 40},
		{"one of them delivered", long + "\n\n", long + "\n", 41},
		{"blanks at the end of the last line", long + "last  \n", long + "last", 40},
		{"blanks and an empty line", long + "last\t\n\n", long + "last", 40},
		{"a blank line", long + "  \n", strings.TrimSuffix(long, "\n"), 40},
		{"CRLF", "a\r\n" + long + "\r\n\r\n", "a\r\n" + strings.TrimSuffix(long, "\n"), 41},
	} {
		n := &named{newClient(t), t}
		n.p.Write(t, "f", c.content)
		n.uses++
		h := store.Hash(sha256.Sum256([]byte(c.content)))
		total := strings.Count(c.content, "\n")
		ask := func(use string, first, count int) readers.Answer {
			q := readers.Request{Reader: n.id, Known: true, Path: "f", Hash: h, Content: func() ([]byte, error) { return []byte(c.content), nil },
				Pending: use != "", ToolUse: use, Tool: "read_file", Offset: first, Limit: count}
			a, err := n.p.shown.Decide(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := ask("first", 1, 0); a.Kind != wire.ReadFull || a.Text != c.content {
			t.Fatalf("%s: %s", c.name, a.Kind)
		}
		n.p.shown.Commit(n.id, []wire.CommitCall{{ToolUse: "first", Text: c.final}})
		if a := ask("", 1, c.held); a.Kind != wire.ReadUnchanged {
			t.Errorf("%s: lines 1-%d are %s, and were delivered", c.name, c.held, a.Kind)
		}
		if a := ask("", 2, total-1); c.held < total && a.Kind == wire.ReadUnchanged {
			t.Errorf("%s: %q, and lines %d-%d were not delivered", c.name, a.Label, c.held+1, total)
		}
	}
}
