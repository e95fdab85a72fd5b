package main

import (
	"os"
	"path/filepath"
	"strings"
)

// rewriting: doctor tries the installed client once, and what a version ignores
// is not rewritten for it any more. The client that ignores is the real one,
// started without the hooks that doctor gave it.
func rewriting(b *bench, c *checks) {
	path := func(dir string) { b.extra = []string{"PATH=" + dir + ":" + os.Getenv("PATH")} }
	defer func() { b.extra = nil }()
	twice := func(name string) (full, stub delivered) {
		m := b.conv(name)
		m.do(b.read("src/big.go"))
		second := m.do(b.read("src/big.go"))
		m.do(shell("cat src/mid.go"))
		bash := m.do(shell("cat src/mid.go"))
		m.say("finished")
		ended(c, b.with(m.ready()), name)
		return m.got(second), m.got(bash)
	}
	path(filepath.Dir(b.claude))
	out, _ := b.toolIn(b.dir, "doctor", b.project)
	c.that(strings.Contains(out, "shows the model what hooks make of Read and Bash"), "doctor tried the client: %s", head(lineWith(out, "rewriting")))
	read, cat := twice("honoured")
	c.that(isStub(read) && isStub(cat), "a second Read and a second cat are stubs: %d and %d bytes", read.size(), cat.size())

	deaf := filepath.Join(b.dir, "deaf")
	script := "#!/bin/bash\nargs=()\nfor a in \"$@\"; do [[ $a == --settings=* ]] || args+=(\"$a\"); done\nexec '" + b.claude + "' \"${args[@]}\"\n"
	if err := os.MkdirAll(deaf, 0o755); err != nil {
		c.that(false, "%v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(deaf, "claude"), []byte(script), 0o755); err != nil {
		c.that(false, "%v", err)
		return
	}
	path(deaf)
	out, _ = b.toolIn(b.dir, "doctor", "--probe", b.project)
	c.that(strings.Contains(out, "ignores rewritten results of Read and Bash, so they are left alone"), "doctor tried one that ignores: %s", head(lineWith(out, "rewriting")))
	path(filepath.Dir(b.claude))
	read, cat = twice("ignored")
	c.that(!strings.Contains(read.text, "cachebro: ") && isFull(cat, 300), "nothing of it is rewritten: %d and %d bytes", read.size(), cat.size())
	out, _ = b.toolIn(b.dir, "doctor", "--probe", b.project)
	c.that(strings.Contains(out, "shows the model"), "tried again, it is on again: %s", head(lineWith(out, "rewriting")))
}

func lineWith(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return text
}
