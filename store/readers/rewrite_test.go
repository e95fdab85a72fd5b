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

// client plays Claude Code: what its Read delivers, how a hook changes that, and what the model
// finally receives.
type client struct {
	t    *testing.T
	p    *project
	id   store.Reader
	uses int
}

// clientRead returns what the client's own Read delivers, from line first on.
func clientRead(content string, first, limit int) *readers.Rewrite {
	text := strings.ReplaceAll(strings.TrimPrefix(content, "\ufeff"), "\r\n", "\n")
	lines := strings.Split(text, "\n")
	last := len(lines)
	if limit > 0 {
		last = min(last, first+limit-1)
	}
	return &readers.Rewrite{
		Rendering: store.RenderClaudeRead, StartLine: first, NumLines: last - first + 1,
		Text: strings.Join(lines[first-1:last], "\n"),
	}
}

func number(text string, start int) string {
	var b strings.Builder
	for i, l := range strings.Split(text, "\n") {
		fmt.Fprintf(&b, "%6d→%s\n", start+i, l)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (c *client) decide(path string, w *readers.Rewrite, offset, limit int) readers.Answer {
	c.t.Helper()
	c.uses++
	content := c.p.files[path]
	a, err := c.p.shown.Decide(context.Background(), readers.Request{
		Reader: c.id, Known: true, Path: store.Path(path), Hash: sha256.Sum256(content), Renamed: c.p.names[path],
		Content: func() ([]byte, error) { return content, nil }, Offset: offset, Limit: limit,
		Pending: true, ToolUse: c.use(), Tool: "Read", Rewrite: w,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *client) use() string { return fmt.Sprint("toolu_", c.uses) }

// read delivers a file and commits what the model received.
func (c *client) read(path string, first, limit int) readers.Answer {
	c.t.Helper()
	w := clientRead(string(c.p.files[path]), first, limit)
	a := c.decide(path, w, 0, 0)
	text, start := w.Text, w.StartLine
	if a.Kind != wire.ReadKeep {
		text, start = a.Text, a.Start
	}
	c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: number(text, start)}})
	return a
}

func newClient(t *testing.T) *client {
	return &client{t: t, p: newProject(t, nil), id: store.Reader{Session: "s"}}
}

func (c *client) want(a readers.Answer, kind string) {
	c.t.Helper()
	if a.Kind != kind {
		c.t.Fatalf("answer is %s %.200q, want %s", a.Kind, a.Text+a.Note, kind)
	}
}

func TestRewriteTexts(t *testing.T) {
	c := newClient(t)
	const path = "src/a.go"
	text := conformance.Text(245)
	c.p.Write(t, path, text)
	c.want(c.read(path, 1, 0), wire.ReadKeep)
	a := c.read(path, 1, 0)
	c.want(a, wire.ReadUnchanged)
	if want := "cachebro: not repeated. Lines 1-245 of src/a.go are exactly as in your Read of 12:40 (245 lines). Read it again to get the text."; a.Text != want || a.Start != 0 {
		t.Errorf("start %d %q\nwant %q", a.Start, a.Text, want)
	}
	c.want(c.read(path, 1, 0), wire.ReadKeep) // requested twice
	a = c.read(path, 50, 30)
	c.want(a, wire.ReadUnchanged)
	if want := "cachebro: not repeated. Lines 50-79 of src/a.go are exactly as in your Read of 12:40 (245 lines). Read it again to get the text."; a.Text != want {
		t.Errorf("%q\nwant %q", a.Text, want)
	}

	// Six lines replace lines 43-45, so the file gets three more lines.
	lines := strings.SplitAfter(text, "\n")
	now := strings.Join(lines[:42], "") + "a\nb\nc\nd\ne\nf\n" + strings.Join(lines[45:], "")
	c.p.Write(t, path, now)
	a = c.read(path, 1, 0)
	c.want(a, wire.ReadSpan)
	if want := "cachebro: src/a.go changed since your Read of 12:40; lines 40-51 are shown as they are now. Lines 1-39 are unchanged; old 49-245 are now 52-248, otherwise unchanged."; a.Note != want {
		t.Errorf("%q\nwant %q", a.Note, want)
	}
	if want := strings.TrimSuffix(strings.Join(strings.SplitAfter(now, "\n")[39:51], ""), "\n"); a.Text != want || a.Start != 40 || a.NumLines != 12 {
		t.Errorf("start %d, %d lines, %q", a.Start, a.NumLines, a.Text)
	}
	c.want(c.read(path, 1, 0), wire.ReadKeep)
	c.want(c.read(path, 1, 0), wire.ReadUnchanged)

	// Next, one change keeps the number of lines, and one adds a line at the end.
	c.p.Write(t, path, conformance.WithLine(now, 100, "x"))
	a = c.read(path, 1, 0)
	c.want(a, wire.ReadSpan)
	if want := "cachebro: src/a.go changed since your Read of 12:40; lines 97-103 are shown as they are now. Lines 1-96 are unchanged; lines 104-248 are unchanged."; a.Note != want {
		t.Errorf("%q\nwant %q", a.Note, want)
	}
	c.p.Write(t, path, conformance.WithLine(now, 100, "x")+"the end\n")
	a = c.read(path, 1, 0)
	c.want(a, wire.ReadSpan)
	if want := "cachebro: src/a.go changed since your Read of 12:40; lines 246-249 are shown as they are now. Lines 1-245 are unchanged."; a.Note != want {
		t.Errorf("%q\nwant %q", a.Note, want)
	}
	if !strings.HasSuffix(a.Text, "\nthe end\n") || a.NumLines != 5 {
		t.Errorf("%d lines, %q: the end of the file belongs to it", a.NumLines, a.Text)
	}
	// A range of the file is unchanged although the file changed elsewhere.
	c.p.Write(t, path, conformance.WithLine(now, 100, "y")+"the end\n")
	a = c.read(path, 1, 60)
	c.want(a, wire.ReadUnchanged)
	if want := "cachebro: not repeated. Lines 1-60 of src/a.go are exactly as in your Read of 12:40 with the changes in your Read of 12:40 (249 lines; changed elsewhere). Read it again to get the text."; a.Text != want {
		t.Errorf("%q\nwant %q", a.Text, want)
	}
	// If most of the file changed, the client's whole text is kept.
	c.p.Write(t, path, strings.ReplaceAll(now, "fox", "cat"))
	c.want(c.read(path, 1, 0), wire.ReadKeep)
	// A renamed file is recognised.
	c.p.Rename(t, path, "src/b.go")
	a = c.read("src/b.go", 1, 0)
	c.want(a, wire.ReadUnchanged)
	if want := "cachebro: not repeated. Lines 1-248 of src/b.go are exactly as in your Read of src/a.go at 12:40 (248 lines). Read it again to get the text."; a.Text != want {
		t.Errorf("%q\nwant %q", a.Text, want)
	}
}

// A client compares modification times, so it does not notice a write that keeps them. Its
// "unchanged" is kept only if cachebro's record agrees.
func TestClientsOwnUnchanged(t *testing.T) {
	c := newClient(t)
	const path = "a.go"
	c.p.Write(t, path, conformance.Text(100))
	said := &readers.Rewrite{Rendering: store.RenderClaudeRead, ClientUnchanged: true}
	a := c.decide(path, said, 0, 0)
	c.want(a, wire.ReadFull)
	if a.Text != conformance.Text(100) || a.NumLines != 101 || a.Start != 1 {
		t.Fatalf("start %d, %d lines, %.60q", a.Start, a.NumLines, a.Text)
	}
	c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: number(a.Text, 1)}})
	c.want(c.decide(path, said, 0, 0), wire.ReadKeep)
	c.want(c.decide(path, said, 0, 0), wire.ReadFull) // requested twice
	c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: number(conformance.Text(100), 1)}})
	c.p.Write(t, path, conformance.WithLine(conformance.Text(100), 50, "x"))
	a = c.decide(path, said, 0, 0)
	c.want(a, wire.ReadSpan)
	// For a range of a file that changed elsewhere, the client's claim is not true.
	c.want(c.decide(path, said, 10, 20), wire.ReadFull)
	// This file is longer than what a client shows in one answer.
	c.p.Write(t, "big.go", strings.Repeat(conformance.Text(1000), 10))
	a = c.decide("big.go", said, 0, 0)
	c.want(a, wire.ReadFull)
	if a.Tokens > 24_500 || a.NumLines > 2000 || a.TotalLines != 10000 {
		t.Errorf("%d tokens, %d of %d lines", a.Tokens, a.NumLines, a.TotalLines)
	}
}

func TestRewriteLeavesAloneWhatItDoesNotUnderstand(t *testing.T) {
	const path = "a.txt"
	text := conformance.Text(100)
	for name, spoil := range map[string]func(w *readers.Rewrite){
		"other text":     func(w *readers.Rewrite) { w.Text = strings.Replace(w.Text, "fox", "cat", 1) },
		"cut in a line":  func(w *readers.Rewrite) { w.Text = w.Text[:500] },
		"wrong count":    func(w *readers.Rewrite) { w.NumLines-- },
		"wrong start":    func(w *readers.Rewrite) { w.StartLine = 2 },
		"beyond the end": func(w *readers.Rewrite) { w.StartLine = 500 },
		"lines left out": func(w *readers.Rewrite) { w.Text = strings.Replace(w.Text, "3: the", "4: the", 1) },
		"a line too long": func(w *readers.Rewrite) {
			w.Text = strings.Replace(w.Text, "dog number 7\n", "dog... [truncated]\n", 1)
		},
	} {
		c := newClient(t)
		c.p.Write(t, path, text)
		c.want(c.read(path, 1, 0), wire.ReadKeep)
		w := clientRead(text, 1, 0)
		spoil(w)
		if a := c.decide(path, w, 0, 0); a.Kind != wire.ReadKeep {
			t.Errorf("%s: %s", name, a.Kind)
		}
		c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: number(w.Text, 1)}})
		// The model received another text for this file, so no stub may follow.
		if a := c.read(path, 1, 0); a.Kind != wire.ReadKeep {
			t.Errorf("%s: then %s", name, a.Kind)
		}
	}
}

func TestRewriteShellOutput(t *testing.T) {
	const path = "a.txt"
	text := conformance.Text(100)
	lines := strings.SplitAfter(text, "\n")
	show := func(c *client, out string, start, n int) readers.Answer {
		c.t.Helper()
		a := c.decide(path, &readers.Rewrite{Rendering: store.RenderRaw, StartLine: start, NumLines: n, Text: out}, 0, 0)
		final := out
		if a.Kind == wire.ReadUnchanged {
			final = a.Text
		} else if a.Kind == wire.ReadSpan {
			final = a.Note + "\n" + a.Text
		}
		c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: strings.TrimRight(final, "\n")}})
		return a
	}
	for _, trim := range []bool{false, true} {
		out := func(s string) string {
			if trim {
				return strings.TrimRight(s, "\n")
			}
			return s
		}
		c := newClient(t)
		c.p.Write(t, path, text)
		c.want(show(c, out(strings.Join(lines[:20], "")), 1, 20), wire.ReadKeep) // head -n 20
		c.want(show(c, out(strings.Join(lines[80:], "")), 0, 0), wire.ReadKeep)  // tail -n 20
		c.want(show(c, out(strings.Join(lines[:20], "")), 1, 20), wire.ReadUnchanged)
		a := show(c, out(strings.Join(lines[80:100], "")), 0, 20)
		c.want(a, wire.ReadUnchanged)
		if !strings.Contains(a.Text, "Lines 81-100 of a.txt are exactly") {
			t.Errorf("%q", a.Text)
		}
		c.want(show(c, out(text), 1, 0), wire.ReadKeep) // cat
		c.want(show(c, out(text), 1, 500), wire.ReadUnchanged)
		c.p.Write(t, path, conformance.WithLine(text, 50, "x"))
		c.want(show(c, out(conformance.WithLine(text, 50, "x")), 1, 0), wire.ReadSpan)
	}
}

// Clients remove white space at the end of an output. What was left of an output that had ended in
// empty lines was once mistaken for a text that no version had. Then everything known about the
// file was dropped.
func TestRewriteShellOutputWithoutItsEnd(t *testing.T) {
	text := conformance.Text(30) + "\n \n" + conformance.Text(30)
	show := func(c *client, out string, start, n int) readers.Answer {
		t.Helper()
		a := c.decide("f", &readers.Rewrite{Rendering: store.RenderRaw, StartLine: start, NumLines: n, Text: out}, 0, 0)
		if a.Kind == wire.ReadUnchanged {
			out = a.Text
		}
		c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: out}})
		return a
	}
	c := newClient(t)
	c.p.Write(t, "f", text)
	first := strings.TrimRight(conformance.Text(30), "\n")
	for _, n := range []int{31, 32} { // sed -n 1,31p
		show(c, first, 1, n)
		a := show(c, first, 1, n)
		c.want(a, wire.ReadUnchanged)
		if n == 31 && !strings.Contains(a.Text, "Lines 1-30 of f are exactly") {
			t.Errorf("%q", a.Text)
		}
	}
	c.want(c.read("f", 1, 0), wire.ReadKeep)
	c.want(show(c, first[strings.Index(first, "\n")+1:], 2, 31), wire.ReadUnchanged)
	// Lines that were not empty are missing, so somebody else removed them.
	show(c, first, 1, 33)
	c.want(c.read("f", 1, 0), wire.ReadKeep)
}

// A client may change the text that it reads, for example remove carriage returns. Such changes do
// not count as changes of the file.
func TestRewriteRenderings(t *testing.T) {
	base := conformance.Text(60)
	for name, make := range map[string]func(string) string{
		"plain":            func(s string) string { return s },
		"carriage returns": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"byte order mark":  func(s string) string { return "\ufeff" + s },
		"no final newline": func(s string) string { return strings.TrimSuffix(s, "\n") },
	} {
		c := newClient(t)
		c.p.Write(t, "f", make(base))
		c.want(c.read("f", 1, 0), wire.ReadKeep)
		a := c.read("f", 1, 0)
		c.want(a, wire.ReadUnchanged)
		if !strings.Contains(a.Text, "Lines 1-60 of f") {
			t.Errorf("%s: %q", name, a.Text)
		}
		c.p.Write(t, "f", make(conformance.WithLine(base, 30, "x")))
		a = c.read("f", 1, 0)
		c.want(a, wire.ReadSpan)
		if a.Start != 27 || a.NumLines != 7 || strings.Contains(a.Text, "\r") {
			t.Errorf("%s: start %d, %d lines, %q", name, a.Start, a.NumLines, a.Text)
		}
	}
	// If other bytes look the same, no answer says "unchanged".
	c := newClient(t)
	c.p.Write(t, "f", base)
	c.want(c.read("f", 1, 0), wire.ReadKeep)
	c.p.Write(t, "f", strings.ReplaceAll(base, "\n", "\r\n"))
	c.want(c.read("f", 1, 0), wire.ReadKeep)
	// A numbered text does not show the raw bytes, so another tool sends them in full.
	d := &direct{p: c.p, known: true, id: c.id}
	if a := d.Read(t, conformance.Read{Path: "f"}); !a.Full() {
		t.Errorf("%.80q", a.Text)
	}
}

func TestCommitForms(t *testing.T) {
	text := conformance.Text(40)
	for name, c := range map[string]struct {
		final string
		ok    bool
	}{
		"arrow":               {number(text, 1), true},
		"without the end":     {strings.TrimSuffix(number(text, 1), "\n    41→"), true},
		"tab":                 {strings.ReplaceAll(number(text, 1), "→", "\t"), true},
		"reminder":            {number(text, 1) + "\n\n<system-reminder>\nbe careful\n</system-reminder>\n", true},
		"plain":               {text, true},
		"numbers from 2":      {number(text, 2), false},
		"one line less":       {number(text[:strings.LastIndex(text[:len(text)-1], "\n")+1], 1), false},
		"one line more":       {number(text+"more\n", 1), false},
		"one character other": {strings.Replace(number(text, 1), "fox", "fix", 1), false},
		"hidden in more":      {"error\n" + number(text, 1), false},
		"nothing":             {"", false},
	} {
		cl := newClient(t)
		cl.p.Write(t, "f", text)
		cl.decide("f", clientRead(text, 1, 0), 0, 0)
		cl.p.shown.Commit(cl.id, []wire.CommitCall{{ToolUse: cl.use(), Text: c.final}})
		if got := cl.read("f", 1, 0).Kind == wire.ReadUnchanged; got != c.ok {
			t.Errorf("%s: counted as shown: %v", name, got)
		}
	}
}

// Two hooks may ask about the same tool call. Both get the same answer, and the second question
// does not count as a second read.
func TestSameToolUseAsksTwice(t *testing.T) {
	c := newClient(t)
	text := conformance.Text(100)
	c.p.Write(t, "f", text)
	c.want(c.read("f", 1, 0), wire.ReadKeep)
	a := c.decide("f", clientRead(text, 1, 0), 0, 0)
	c.uses--
	b := c.decide("f", clientRead(text, 1, 0), 0, 0)
	if a.Kind != wire.ReadUnchanged || a != b {
		t.Errorf("%+v\n%+v", a, b)
	}
	// Another hook's rewrite was used, so the model has the client's text after all.
	c.p.shown.Commit(c.id, []wire.CommitCall{{ToolUse: c.use(), Text: number(text, 1)}})
	if h, _, _, ok := c.p.shown.ShownSince(c.id, "f"); !ok || h != sha256.Sum256([]byte(text)) {
		t.Error("the text that was delivered is not on record")
	}
}

func TestClockInTexts(t *testing.T) {
	c := newClient(t)
	c.p.Write(t, "f", conformance.Text(100))
	c.read("f", 1, 0)
	c.p.now = c.p.now.Add(13 * time.Minute)
	if a := c.read("f", 1, 0); !strings.Contains(a.Text, "your Read of 12:40 ") {
		t.Errorf("%q: the time is that of the text, not of the question", a.Text)
	}
}
