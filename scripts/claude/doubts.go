package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// doubts checks that a result does not count as shown if the client cut it or another hook replaced
// it.
func doubts(b *bench, c *checks) {
	m := b.conv("doubts")
	capped := m.do(b.read("src/huge.go"))
	page := m.do(b.read("src/huge.go", "offset", 1, "limit", 300))
	catBig := m.do(shell("cat src/big.go"))
	readBig := m.do(b.read("src/big.go"))
	failed := m.do(b.read("src/huge.go", "offset", 100, "limit", 5000))
	rest := m.do(b.read("src/huge.go", "offset", 4000, "limit", 100))
	empty := m.do(b.read("src/none.go"))
	m.say("finished")
	r := b.with(m.ready())
	ended(c, r, "the session")
	d := m.got(capped)
	// Some versions mark the result as PARTIAL. 2.1.330 sends the first lines without any mark.
	c.that(strings.Contains(d.text, "line 1 of this") && !strings.Contains(d.text, "line 6000 of this"), "the client caps the Read: %s", head(d.text))
	d = m.got(page)
	c.that(isFull(d, 300), "a Read of a range after a capped Read is full: %d bytes", d.size())
	d = m.got(catBig)
	c.that(strings.HasPrefix(d.text, "<persisted-output>"), "cat above 30,000 characters is a preview: %s", head(d.text))
	d = m.got(readBig)
	c.that(isFull(d, 900), "Read after the preview is full: %d bytes", d.size())
	d = m.got(failed)
	c.that(d.found && !isFull(d, 5000), "a Read above the limit fails: %s", head(d.text))
	d = m.got(rest)
	c.that(isFull(d, 100), "a Read of a part of the range that failed is full: %d bytes", d.size())
	d = m.got(empty)
	c.that(strings.Contains(d.text, "not exist"), "a missing file gives the client's own error: %s", head(d.text))

	// Now another hook rewrites the same results.
	hook := filepath.Join(b.dir, "other-hook")
	script := `#!/bin/sh
cat >/dev/null
echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":{"type":"text","file":{"filePath":"x","content":"redacted","numLines":1,"startLine":1,"totalLines":1}}}}'
`
	if err := os.WriteFile(hook, []byte(script), 0o755); err != nil {
		c.that(false, "%v", err)
		return
	}
	settings, err := json.Marshal(map[string]any{"hooks": map[string]any{"PostToolUse": []any{map[string]any{
		"matcher": "Read", "hooks": []any{map[string]any{"type": "command", "command": hook}}}}}})
	if err != nil {
		c.that(false, "%v", err)
		return
	}
	file := filepath.Join(b.dir, "home", ".claude", "settings.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		c.that(false, "%v", err)
		return
	}
	n := b.conv("tworewriters")
	one := n.do(b.read("src/mid.go"))
	two := n.do(b.read("src/mid.go"))
	cat := n.do(shell("cat src/mid.go"))
	n.say("finished")
	r = b.with(n.ready())
	os.Remove(file)
	ended(c, r, "with another rewriting hook")
	d = n.got(one)
	c.that(strings.Contains(d.text, "redacted"), "the other hook replaced the Read: %s", head(d.text))
	d = n.got(two)
	c.that(!isStub(d), "the second Read is no stub: %s", head(d.text))
	d = n.got(cat)
	// The client itself answers "unchanged" to the second Read, and our hook then puts the full
	// text in its place. The model has the file only if the client used this replacement.
	known := isFull(n.got(two), 300)
	c.that(isStub(d) && known || isFull(d, 300) && !known, "cat of the same file is a stub only if the model got its text before: %v, %d bytes", known, d.size())
}

// parallel checks several calls in one answer, calls that fail, and a write that keeps the file's
// mtime.
func parallel(b *bench, c *checks) {
	m := b.conv("parallel")
	both := m.do(b.read("src/mid.go"), b.read("src/big.go"), shell("cat src/mid.go; exit 3"), b.read("src/none.go"))
	m.do(shell(`touch src/mid.go`))
	again := m.do(b.read("src/big.go"), b.read("src/mid.go"))
	m.do(shell(`touch -r src/mid.go ref && sed -i 's/^var v1100 = 1100/var v1100 = 9999/' src/mid.go && touch -r ref src/mid.go && rm ref`))
	keeps := m.do(b.read("src/mid.go"))
	m.do(shell(`git checkout -q src/mid.go`))
	back := m.do(b.read("src/mid.go"))
	m.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "src/new.go"), "content": lines(1, 100)}})
	written := m.do(b.read("src/new.go"))
	m.do(shell("rm src/new.go && seq 1 500 > src/new.go"))
	replaced := m.do(b.read("src/new.go"))
	history := m.do(call{Name: "mcp__cachebro__search_history", Input: map[string]any{"limit": 20}})
	m.do(b.read("src/huge.go", "offset", 1, "limit", 50))
	stale := m.do(b.edit("src/huge.go", "line 7 of this", "line 7 of mine"))
	m.steps[stale].act = func() {
		// Keep the file's mtime, because the client itself refuses an Edit if the mtime has
		// changed.
		path := filepath.Join(b.project, "src/huge.go")
		fi, err := os.Stat(path)
		if err == nil {
			text := strings.Replace(lines(1, 6000), "line 9 of this", "line 9 of that", 1)
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err == nil {
			err = os.Chtimes(path, time.Time{}, fi.ModTime())
		}
		c.that(err == nil, "somebody else writes: %v", err)
	}
	m.say("finished")
	r := b.with(m.ready())
	ended(c, r, "the session")
	d := m.got(stale)
	c.that(strings.Contains(d.notes, "cachebro: src/huge.go was changed at") && strings.Contains(d.notes, "line 9 differs"), "somebody else's change is reported before the Edit: %s | %s", head(d.notes), head(d.text))
	d = m.got(history)
	c.that(strings.Contains(d.text, "src/mid.go"), "the MCP server answers: %s", head(d.text))
	res := func(step, i int) delivered { return b.api.result("parallel", step, i) }
	c.that(isFull(res(both, 0), 300) && isFull(res(both, 1), 900), "two Reads of one answer are full")
	c.that(strings.Contains(res(both, 2).text, "Exit code 3"), "a failing command is left alone: %s", head(res(both, 2).text))
	c.that(isStub(res(again, 0)) && isStub(res(again, 1)), "both are stubs the next time, in spite of a touch: %s | %s", head(res(again, 0).text), head(res(again, 1).text))
	d = m.got(keeps)
	c.that(strings.Contains(d.text, "v1100 = 9999") && d.size() < 1000, "a change that keeps the mtime is not called unchanged: %d bytes: %s", d.size(), head(d.text))
	d = m.got(back)
	c.that(strings.Contains(d.text, "v1100 = 1100"), "a Read after git checkout shows the old content: %d bytes: %s", d.size(), head(d.text))
	d = m.got(written)
	c.that(d.found, "a Read of what the model wrote itself is answered: %d bytes: %s", d.size(), head(d.text))
	d = m.got(replaced)
	c.that(strings.Contains(d.text, "500\t500"), "a Read after the file was replaced shows the new file: %d bytes: %s", d.size(), head(d.text))
}
