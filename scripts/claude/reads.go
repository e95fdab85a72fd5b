package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// isStub reports whether an answer is a stub: a line which says, in one of two forms, that a text
// is not repeated.
func isStub(d delivered) bool {
	return d.found && d.size() < 400 &&
		(strings.Contains(d.text, "unchanged since") || strings.Contains(d.text, "cachebro: not repeated"))
}

// isFull reports whether an answer has all n lines of a text, with line numbers (Read) or without
// them (cat).
func isFull(d delivered, n int) bool {
	return d.found && strings.Count(d.text, " of this") == n
}

// ended checks that a run of the client finished with success.
func ended(c *checks, r run, what string) {
	c.that(r.err == nil && strings.Contains(r.stdout, `"subtype":"success"`), "%s ran to its end in %.1f s %s", what, r.took.Seconds(), tailOf(r))
}

func tailOf(r run) string {
	if r.err == nil {
		return ""
	}
	return fmt.Sprintf("(%v: %s)", r.err, head(r.stderr))
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

func reads(b *bench, c *checks) {
	m, sub := b.conv("reads"), b.conv("reads-sub")
	sub.do(b.read("src/big.go"))
	sub.do(b.read("src/big.go"))
	sub.say("done")

	first := m.do(b.read("src/big.go"))
	m.do(shell(`sed -i 's/^var v0500.*/var v0500 = -1 \/\/ changed/' src/big.go`))
	second := m.do(b.read("src/big.go"))
	edit := m.do(b.edit("src/big.go", "var v0500 = -1 // changed", "var v0500 = -2 // edited"))
	third := m.do(b.read("src/big.go"))
	again := m.do(b.read("src/big.go"))
	part := m.do(b.read("src/big.go", "offset", 100, "limit", 50))
	m.do(shell(`sed -i '10i\// a new line' src/big.go`))
	overlap := m.do(b.read("src/big.go", "offset", 1, "limit", 50))
	cat := m.do(shell("cat src/mid.go"))
	m.do(shell(`sed -i 's/^var v1100.*/var v1100 = -1 \/\/ changed/' src/mid.go`))
	catDiff := m.do(shell("cat src/mid.go"))
	m.do(b.read("src/mid.go", "offset", 100, "limit", 1)) // the client allows an Edit only after a Read; a cat does not count
	catEdit := m.do(b.edit("src/mid.go", "var v1100 = -1 // changed", "var v1100 = -2 // edited"))
	catStub := m.do(shell("cat src/mid.go"))
	catFull := m.do(shell("cat src/mid.go"))
	range1 := m.do(shell("sed -n '10,60p' src/mid.go"))
	m.do(agent("reads-sub"))
	sub.ready()
	last := m.say("finished")
	prompt := m.ready()

	r := b.with(prompt)
	ended(c, r, "the session")
	want, _ := os.ReadFile(filepath.Join(b.project, "src/big.go"))
	c.that(strings.Contains(string(want), "v0500 = -2 // edited"), "the file has the edit")

	d := m.got(first)
	c.that(isFull(d, 900), "first Read is full: %d bytes", d.size())
	d = m.got(second)
	c.that(d.found && d.size() < 1000, "Read after sed -i: %d bytes", d.size())
	c.that(strings.Contains(d.text, "500\tvar v0500 = -1 // changed\n") && strings.Contains(d.text, "497\tvar v0497") && strings.Contains(d.text, "503\tvar v0503"),
		"its lines have their real numbers: %s", head(d.text))
	c.that(strings.Contains(d.notes, "cachebro: src/big.go changed since your Read of"), "the note came: %s", head(d.notes))
	d = m.got(edit)
	c.that(strings.Contains(d.text, "updated successfully"), "the built-in Edit succeeds: %s", head(d.text))
	d = m.got(third)
	c.that(isStub(d), "third Read is a stub: %d bytes: %s", d.size(), head(d.text))
	d = m.got(again)
	c.that(isFull(d, 899), "the same once more is full: %d bytes", d.size())
	d = m.got(part)
	c.that(isStub(d), "a range of what was read is a stub: %d bytes", d.size())
	d = m.got(overlap)
	c.that(strings.Count(d.text, "\n") >= 49 && strings.Contains(d.text, "10\t// a new line"), "a range over a change is the lines themselves: %d bytes: %s", d.size(), head(d.text))
	d = m.got(cat)
	c.that(isFull(d, 300), "first cat is full: %d bytes", d.size())
	d = m.got(catDiff)
	c.that(d.found && d.size() < 1000 && strings.Contains(d.text, "var v1100 = -1 // changed") && strings.HasPrefix(d.text, "cachebro: "), "cat after sed -i: %d bytes: %s", d.size(), head(d.text))
	d = m.got(catEdit)
	c.that(strings.Contains(d.text, "updated successfully"), "the built-in Edit of it succeeds: %s", head(d.text))
	d = m.got(catStub)
	c.that(isStub(d), "third cat is a stub: %d bytes: %s", d.size(), head(d.text))
	d = m.got(catFull)
	c.that(isFull(d, 299), "the same once more is full: %d bytes", d.size())
	d = m.got(range1)
	c.that(isStub(d), "sed -n of known lines is a stub: %d bytes: %s", d.size(), head(d.text))
	d = sub.got(0)
	c.that(isFull(d, 899), "a sub-agent's first Read is full: %d bytes", d.size())
	d = sub.got(1)
	c.that(isStub(d), "its second is a stub: %d bytes", d.size())
	es := b.api.of("reads")
	// A client that runs sub-agents in the background sends one more request when a sub-agent has
	// ended.
	c.that(len(es) >= last+1 && len(es) <= last+2, "%d requests, %d steps", len(es), last+1)
	c.that(strings.Contains(r.stdout, "tokens saved ·") && strings.Contains(r.stdout, "files changed, undo: cachebro undo --prompt "), "the Stop line was shown: %s", head(after(r.stdout, `systemMessage\":\"`)))
	c.that(!strings.Contains(r.stdout+r.stderr, "failed:"), "the end of the session is silent: %s", head(r.stderr))

	sum := func(name string, n int) (t int) {
		for i := range n {
			t += b.api.result(name, i, 0).size()
		}
		return t
	}
	with := sum("reads", last) + sum("reads-sub", 2)
	log, err := b.tool("log", "--session", r.session(), "--limit", "50")
	c.that(err == nil && strings.Contains(log, "sed") && strings.Contains(log, "Edit"), "log --session names sed and Edit: %s", head(log))

	// Run the same calls without cachebro, to compare the totals.
	out, err := b.umount()
	c.that(err == nil, "umount %s", head(out))
	os.RemoveAll(b.project)
	if err := b.newProject(); err != nil {
		c.that(false, "%v", err)
		return
	}
	sub.ready()
	ended(c, b.plain(m.ready()), "the same without cachebro")
	without := sumLast(b, "reads", last) + sumLast(b, "reads-sub", 2)
	c.that(with < without, "tool results: %d bytes with cachebro, %d without (%.0f %% saved)", with, without, 100-100*float64(with)/float64(without))
}

// sumLast adds up the sizes of the first n results in the newest run of a conversation.
func sumLast(b *bench, name string, n int) (t int) {
	for i := range n {
		t += b.api.newest(name, i, 0).size()
	}
	return t
}
