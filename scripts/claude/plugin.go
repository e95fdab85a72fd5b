package main

import (
	"os"
	"path/filepath"
	"strings"
)

// plugged makes the client load hooks/plugin in the form in which a marketplace would install it.
// init registers nothing.
func plugged(b *bench, c *checks) {
	out, err := b.tool("mount", b.project)
	c.that(err == nil, "mount: %s", tailLine(out))
	m := b.conv("plugin")
	first := m.do(b.read("src/mid.go"))
	second := m.do(b.read("src/mid.go"))
	m.do(shell("rm src/mid.go; echo lost > src/big.go"))
	m.say("one")
	undo := m.do(shell("cachebro undo --prompt last --yes"))
	m.say("two")
	before := snapshot(b.project)

	b.extra = []string{"PATH=" + filepath.Dir(b.cachebro) + ":" + os.Getenv("PATH")}
	b.prompts = []string{m.ready(), "/cachebro:undo"}
	plugin := filepath.Join(filepath.Dir(filepath.Dir(b.cachebro)), "hooks", "plugin")
	r := b.start([]string{b.claude, "-p", "--plugin-dir", plugin, "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-hook-events", "--permission-mode", "bypassPermissions"})
	b.prompts, b.extra = nil, nil
	ended(c, r, "the client with the plugin")
	d := m.got(first)
	c.that(isFull(d, 300), "first Read is full: %d bytes", d.size())
	d = m.got(second)
	c.that(isStub(d), "second Read is a stub: %d bytes: %s", d.size(), head(d.text))
	asked := ""
	for _, e := range b.api.of("plugin") {
		if e.step == undo {
			asked = after(e.body.words(), "What would be undone")
		}
	}
	c.that(strings.Contains(asked, "src/mid.go") && strings.Contains(asked, "src/big.go"), "/cachebro:undo shows what would be undone: %s", head(asked))
	d = m.got(undo)
	c.that(d.found && strings.Contains(d.text, "src/mid.go"), "the undo says what it did: %s", head(d.text))
	c.that(same(before, snapshot(b.project)), "the project is what it was before the prompt")
}

func same(a, b map[string]string) bool {
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return len(a) == len(b)
}
