package main

import (
	"os"
	"path/filepath"
	"strings"
)

// rewriting checks how the hooks learn that a client ignores their replacements. A "deaf" version
// of the client shows its own text to the model, whatever replacement a hook sends. Our hooks must
// send the deaf client each form of replacement once and never again, and the real client must
// still get replacements. The deaf client is the real client, with a script in front of our hook
// that drops the replacements.
func rewriting(b *bench, c *checks) {
	real := b.claude
	defer func() { b.claude = real }()
	var last run
	twice := func(name string) (read, lines, bash delivered) {
		m := b.conv(name)
		m.do(b.read("src/big.go"))
		second := m.do(b.read("src/big.go"))
		m.do(b.read("src/big.go"))
		m.do(shell(`sed -i 's/^var v0500.*/var v0500 = 1 \/\/ of this/' src/big.go`))
		third := m.do(b.read("src/big.go"))
		m.do(shell("cat src/mid.go"))
		cat := m.do(shell("cat src/mid.go"))
		m.do(shell("git checkout -q ."))
		m.say("finished")
		last = b.with(m.ready())
		ended(c, last, name)
		c.that(!strings.Contains(last.stdout, "does not match") && !strings.Contains(last.stdout+last.stderr, "hook error"), "no failed hook is shown")
		return m.got(second), m.got(third), m.got(cat)
	}
	read, lines, cat := twice("honoured")
	c.that(isStub(read) && lines.size() < 1500 && isStub(cat), "a second Read, a changed one and a second cat are short: %d, %d, %d bytes", read.size(), lines.size(), cat.size())

	dir := filepath.Join(b.dir, "deaf")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.that(false, "%v", err)
		return
	}
	quoted := strings.ReplaceAll(b.cachebro, "'", `'\''`)
	shim := "#!/bin/bash\nout=$('" + quoted + "' hook PostToolUse)\ncase $out in *updatedToolOutput*) echo x >>'" + dir + "/swallowed';; *) echo \"$out\";; esac\n"
	wrapper := "#!/bin/bash\nargs=()\nfor a in \"$@\"; do\n  a=${a//'" + quoted + " hook PostToolUse;'/'AI_AGENT=claude-code_9-9-9_deaf " + dir + "/shim;'}\n" +
		"  a=${a//'" + quoted + " hook'/'AI_AGENT=claude-code_9-9-9_deaf " + quoted + " hook'}\n  args+=(\"$a\")\ndone\nexec '" + real + "' \"${args[@]}\"\n"
	for name, text := range map[string]string{"shim": shim, "claude": wrapper} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			c.that(false, "%v", err)
			return
		}
	}
	swallowed := func() int {
		raw, _ := os.ReadFile(filepath.Join(dir, "swallowed"))
		return strings.Count(string(raw), "x")
	}
	b.claude = filepath.Join(dir, "claude")
	read, lines, cat = twice("deaf")
	c.that(isFull(read, 900) && isFull(lines, 900) && isFull(cat, 300), "the deaf version gets its own text: %d, %d, %d bytes", read.size(), lines.size(), cat.size())
	n := swallowed()
	c.that(n == 3, "each form was sent to it once: %d", n)
	read, _, cat = twice("deafagain")
	c.that(isFull(read, 900) && isFull(cat, 300) && swallowed() == n, "and not again: %d", swallowed()-n)
	out, _ := b.toolIn(b.dir, "doctor", "--dir", b.project)
	c.that(strings.Contains(out, "claude-code/9.9.9 ignored a result"), "doctor says so: %s", head(lineWith(out, "rewriting")))
	b.claude = real
	read, lines, cat = twice("besideit")
	c.that(isStub(read) && lines.size() < 1500 && isStub(cat), "the real version is served on: %d, %d, %d bytes", read.size(), lines.size(), cat.size())
}

func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return text
}
