package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cachebro/store/leaf/text"
)

// textKind is one kind of file: the encoding of its characters and of its line ends.
type textKind struct{ encoding, ends string }

func (k textKind) name() string { return k.encoding + "-" + k.ends + ".txt" }

// binary reports whether no tool treats the kind as text.
func (k textKind) binary() bool { return k.encoding == "nul" }

// oneLine reports whether a tool that compares lines sees a single line.
func (k textKind) oneLine() bool { return k.ends == "cr" || k.binary() }

var lineEnds = map[string][]string{"lf": {"\n"}, "crlf": {"\r\n"}, "mixed": {"\n", "\r\n"}, "cr": {"\r"}}

// shown joins lines with the line ends of the kind.
func (k textKind) shown(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		e := lineEnds[k.ends]
		b.WriteString(l + e[i%len(e)])
	}
	return b.String()
}

// spell returns the bytes of a file with this text.
func (k textKind) spell(t *testing.T, shown string) string {
	t.Helper()
	switch k.encoding {
	case "bom":
		return text.Mark + shown
	case "latin1":
		return strings.ReplaceAll(shown, "é", "\xe9")
	case "nul":
		return strings.ReplaceAll(shown, "é", "\x00")
	case "utf16le", "utf16be":
		out := []byte(map[string]string{"utf16le": "\xff\xfe", "utf16be": "\xfe\xff"}[k.encoding])
		for _, r := range shown { // no characters beyond Unicode's first plane
			hi, lo := byte(r>>8), byte(r)
			if k.encoding == "utf16le" {
				hi, lo = lo, hi
			}
			out = append(out, hi, lo)
		}
		return string(out)
	}
	return shown
}

// said is the answer of a tool.
type said struct {
	text    string
	refused bool
}

// tools makes calls over one connection, each answered before the next one is made.
func (p *project) tools(calls []map[string]any) []said {
	p.t.Helper()
	out := make([]said, len(calls))
	var in strings.Builder
	in.WriteString(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i, c := range calls {
		call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": c})
		if err != nil {
			p.t.Fatal(err)
		}
		in.WriteString(string(call) + "\n")
	}
	cmd := p.command("serve", "--tools=all", p.dir)
	cmd.Stdin = strings.NewReader(in.String())
	answers, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("serve: %v", err)
	}
	for line := range strings.Lines(string(answers)) {
		var a struct {
			ID     any `json:"id"`
			Result struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			p.t.Fatal(err)
		}
		if id, ok := a.ID.(float64); ok {
			for _, c := range a.Result.Content {
				out[int(id)].text += c.Text + "\n"
			}
			out[int(id)].refused = a.Result.IsError
		}
	}
	return out
}

// Every tool works on the same text. Each kind of file is read, edited, written, searched,
// compared and undone, and only the intended bytes change. Otherwise the tool refuses and says
// why.
func TestTextsOfEveryKind(t *testing.T) {
	var kinds []textKind
	for _, e := range []string{"utf8", "bom", "utf16le", "utf16be", "latin1", "nul"} {
		for _, n := range []string{"lf", "crlf", "mixed", "cr"} {
			kinds = append(kinds, textKind{e, n})
		}
	}
	lines := make([]string, 12)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %02d of this", i+1)
	}
	lines[0] = "line 01 é"
	lines[5] = "line 06 needle"
	files := map[string]string{}
	for _, k := range kinds {
		files[k.name()] = k.spell(t, k.shown(lines))
	}
	p := newProject(t, files)
	p.scanned()
	want := map[textKind][]string{}
	for _, k := range kinds {
		want[k] = append([]string(nil), lines...)
	}
	check := func(what string) {
		t.Helper()
		for _, k := range kinds {
			if got, is := p.read(k.name()), k.spell(t, k.shown(want[k])); got != is {
				t.Errorf("%s: %s is\n%q, want\n%q", what, k.name(), got, is)
			}
		}
	}
	calls := func(tool string, args func(textKind) map[string]any, done func(textKind, said)) {
		t.Helper()
		var all []map[string]any
		for _, k := range kinds {
			a := args(k)
			a["path"] = k.name()
			all = append(all, map[string]any{"name": tool, "arguments": a})
		}
		for i, s := range p.tools(all) {
			if k := kinds[i]; k.binary() {
				if !s.refused || !strings.Contains(s.text, "is binary") {
					t.Errorf("%s %s: %+v, want a refusal", tool, k.name(), s)
				}
			} else if s.refused {
				t.Errorf("%s %s: %s", tool, k.name(), s.text)
			} else {
				done(k, s)
			}
		}
	}
	edited := func(textKind, said) {}

	calls("read_file", func(textKind) map[string]any { return map[string]any{"force": true} }, func(k textKind, s said) {
		shown := k.shown(lines)
		if k.encoding == "latin1" {
			shown = strings.ReplaceAll(shown, "é", "\uFFFD")
		}
		if !strings.HasPrefix(strings.TrimPrefix(s.text, text.Mark), shown) {
			t.Errorf("read_file %s: %q", k.name(), s.text)
		}
		if strings.Contains(s.text, "[cachebro: the file is UTF-16 ") != strings.HasPrefix(k.encoding, "utf16") {
			t.Errorf("read_file %s says of its encoding: %q", k.name(), s.text)
		}
	})
	calls("edit_file", func(textKind) map[string]any {
		return map[string]any{"old_string": "line 03 of", "new_string": "LINE 03 of"}
	}, edited)
	calls("edit_file", func(textKind) map[string]any {
		return map[string]any{"old_string": strings.Join(lines[7:11], "\n") + "\n", "new_string": lines[7] + "\nnine\nten\n" + lines[10] + "\n"}
	}, edited)
	calls("edit_file", func(textKind) map[string]any {
		return map[string]any{"old_string": " of this", "new_string": " of that", "replace_all": true}
	}, edited)
	for _, k := range kinds {
		if k.binary() {
			continue
		}
		w := want[k]
		w[2], w[8], w[9] = "LINE 03 of this", "nine", "ten"
		for i := range w {
			w[i] = strings.ReplaceAll(w[i], " of this", " of that")
		}
	}
	check("after edits")

	now, past := p.cb("search", "needle", "--dir", p.dir), p.cb("search", "--history", "line 03 of this", "--dir", p.dir)
	for _, k := range kinds {
		if !k.binary() && (!strings.Contains(now, k.name()) || !strings.Contains(past, k.name())) {
			t.Errorf("%s: search found it %v, in the history %v", k.name(), strings.Contains(now, k.name()), strings.Contains(past, k.name()))
		}
	}

	// Files that a search skips are counted and named. A file is found by its name whatever it
	// contains.
	var searches []map[string]any
	modes := []string{"exact", "ranked", "symbols", "history", "files"}
	for _, mode := range modes {
		pattern := map[string]string{"history": "line 03 of this", "files": "nul-"}[mode]
		if pattern == "" {
			pattern = "needle"
		}
		searches = append(searches, map[string]any{"name": "search", "arguments": map[string]any{"pattern": pattern, "mode": mode, "limit": 100}})
	}
	for i, s := range p.tools(searches) {
		_, left, counted := strings.Cut(s.text, "[not searched: ")
		switch {
		case s.refused:
			t.Errorf("search %s: %s", modes[i], s.text)
		case modes[i] == "files":
			if counted || strings.Count(s.text, "nul-") < 4 {
				t.Errorf("search for files: %s", s.text)
			}
		case modes[i] == "history": // nobody has changed them yet
			if counted {
				t.Errorf("search of the history: %s", s.text)
			}
		case !strings.HasPrefix(left, `4 binary ("nul-cr.txt", "nul-crlf.txt", "nul-lf.txt", …)`):
			t.Errorf("search %s does not say what it left out: %s", modes[i], s.text)
		}
	}

	// stage writes the wanted texts of the given kinds as one action, and returns the versions that
	// this made.
	stage := func(dir string, of ...textKind) map[textKind]string {
		t.Helper()
		from := t.TempDir()
		for _, k := range of {
			if err := os.WriteFile(filepath.Join(from, k.name()), []byte(k.spell(t, k.shown(want[k]))), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("setsid", "-w", "sh", "-c", "cat "+from+"/"+of[0].name()+" >/dev/null; cp "+from+"/* "+dir).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
		made := map[textKind]string{}
		for _, k := range of {
			if all := p.log(k.name()); len(all) > 0 && dir == p.dir {
				made[k] = "#" + strconv.FormatUint(all[len(all)-1].Seq, 10)
			}
		}
		return made
	}
	change := func(line int, to string) {
		for _, k := range kinds {
			want[k] = append([]string(nil), want[k]...)
			want[k][line] = to
		}
	}

	// Test diff, blame, and the undo of one of two hunks.
	change(1, "two by cp")
	change(10, "eleven by cp")
	made := stage(p.dir, kinds...)
	for _, k := range kinds {
		if k.binary() {
			if out := p.cb("diff", p.path(k.name())); !strings.Contains(out, "Binary files") {
				t.Errorf("diff %s: %s", k.name(), out)
			}
			if out := p.refuse(1, "blame", p.path(k.name())); !strings.Contains(out, "is not a text file") {
				t.Errorf("blame %s: %s", k.name(), out)
			}
			continue
		}
		if out := p.cb("diff", p.path(k.name())); !strings.Contains(out, "two by cp") || !strings.Contains(out, "\n-") || strings.Contains(out, "Binary") {
			t.Errorf("diff %s: %s", k.name(), out)
		}
		if out := p.cb("blame", p.path(k.name())); !strings.Contains(out, "two by cp") || strings.ContainsRune(out, 0) || strings.HasPrefix(k.name(), "utf8-crlf") && strings.ContainsRune(out, '\uFFFD') {
			t.Errorf("blame %s: %s", k.name(), out)
		}
		cmd := p.command("undo", made[k], k.name(), "--hunk", "--dir", p.dir)
		cmd.Stdin = strings.NewReader("n\ny\n")
		if k.oneLine() {
			cmd.Stdin = strings.NewReader("y\n")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("undo --hunk %s: %v\n%s", k.name(), err, out)
		}
		want[k][10] = lines[10]
		want[k][10] = strings.ReplaceAll(want[k][10], " of this", " of that")
		if k.oneLine() {
			want[k][1] = strings.ReplaceAll(lines[1], " of this", " of that")
		}
	}
	check("after a hunk was taken back")
	if s := p.tools([]map[string]any{{"name": "search", "arguments": map[string]any{"pattern": "by cp", "mode": "history", "limit": 100}}})[0]; !strings.Contains(s.text, "[not searched: 4 binary (") {
		t.Errorf("search of the history does not say what it left out: %s", s.text)
	}

	// If one change is undone, somebody else's change in other lines stays.
	change(1, "two by the first")
	first := stage(p.dir, kinds...)
	change(10, "eleven by the second")
	stage(p.dir, kinds...)
	before := map[textKind]string{}
	for _, k := range kinds {
		before[k] = "two by cp"
		if k.oneLine() {
			before[k] = "line 02 of that"
		}
		if k.oneLine() {
			if out := p.refuseOut(1, "undo", first[k], k.name(), "--merge", "--yes", "--dir", p.dir); !strings.Contains(out, "conflict") {
				t.Errorf("undo %s under another's change: %s", k.name(), out)
			}
			continue
		}
		p.cb("undo", first[k], k.name(), "--merge", "--yes", "--dir", p.dir)
		want[k][1] = before[k]
	}
	check("after one of two changes was undone")

	// A merge of a change in a fork with a change in the project.
	f := p.fork("fork")
	var two []textKind
	for _, k := range kinds {
		if !k.oneLine() {
			two = append(two, k)
		}
	}
	was := map[textKind]string{}
	for _, k := range kinds {
		was[k] = want[k][1]
	}
	change(1, "two in the fork")
	stage(f.dir, kinds...)
	for _, k := range kinds {
		want[k][1] = was[k]
	}
	for _, k := range two {
		want[k][10] = "eleven in the project"
	}
	stage(p.dir, two...)
	p.cb("fork", "merge", f.dir)
	change(1, "two in the fork")
	check("after the fork was merged")

	// New text is written in the encoding of the old one.
	fresh := []string{"fresh one", "fresh two"}
	var all []map[string]any
	for _, k := range kinds {
		all = append(all, map[string]any{"name": "write_file", "arguments": map[string]any{"path": k.name(), "content": "fresh one\nfresh two\n"}})
		if k.binary() || k.ends == "mixed" || k.ends == "cr" {
			continue
		}
		want[k] = fresh
	}
	for i, s := range p.tools(all) {
		k := kinds[i]
		is := k.spell(t, k.shown(fresh))
		if k.binary() || k.ends == "mixed" || k.ends == "cr" {
			is = k.spell(t, "fresh one\nfresh two\n") // nothing says which line ends are meant
		}
		if got := p.read(k.name()); s.refused || got != is {
			t.Errorf("write_file %s: %q, want %q; said %s", k.name(), got, is, s.text)
		}
		if kept := strings.Contains(s.text, "kept"); kept != (k.encoding == "bom" || strings.HasPrefix(k.encoding, "utf16") || k.ends == "crlf" && !k.binary()) {
			t.Errorf("write_file %s says %s", k.name(), s.text)
		}
	}
}

// If a fork only changed a file's encoding, the lines are the same. The diff still says what
// changed.
func TestForkDiffOfAnEncoding(t *testing.T) {
	wide := textKind{"utf16le", "lf"}
	p := newProject(t, map[string]string{"a.txt": "one\ntwo\n"})
	p.scanned()
	f := p.fork("fork")
	if err := os.WriteFile(f.path("a.txt"), []byte(wide.spell(t, "one\ntwo\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := p.cb("fork", "diff", "--patch", f.dir); !strings.Contains(out, "a.txt: encoding UTF-8 → UTF-16 LE\n") {
		t.Errorf("fork diff: %q", out)
	}
	if err := os.WriteFile(f.path("a.txt"), []byte(wide.spell(t, "one\nTWO\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := p.cb("fork", "diff", "--patch", f.dir); !strings.Contains(out, "UTF-16 LE\n") || !strings.Contains(out, "\n-two\n+TWO\n") {
		t.Errorf("fork diff: %q", out)
	}
}
