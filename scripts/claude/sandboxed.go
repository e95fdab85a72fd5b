package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// sandboxed: with the client's sandbox (bubblewrap) on, its commands see everything
// outside of the project read-only and may open no Unix socket. What init sets lets
// cachebro's own commands run beside it.
func sandboxed(b *bench, c *checks) {
	config := filepath.Join(b.dir, "home", ".claude", "settings.json")
	b.extra = []string{"PATH=" + filepath.Dir(b.cachebro) + ":" + os.Getenv("PATH")}
	defer func() { b.extra = nil }()
	settings, _ := json.Marshal(map[string]any{"sandbox": map[string]any{"enabled": true, "autoAllowBashIfSandboxed": true, "enableWeakerNestedSandbox": true}}) // of strings and booleans: cannot fail
	c.that(os.WriteFile(config, settings, 0o600) == nil, "the sandbox is switched on")
	out, err := b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(out))
	before := snapshot(b.project)
	m := b.conv("inside")
	probe := m.do(shell("touch " + filepath.Join(b.dir, "outside") + "; echo changed >src/new.txt; cat src/new.txt"))
	log := m.do(shell("cachebro log"))
	status := m.do(shell("cachebro status"))
	undo := m.do(shell("cachebro undo --prompt last --yes"))
	m.say("finished")
	r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), nil)...))
	ended(c, r, "a session in the sandbox")
	d := m.got(probe)
	c.that(strings.Contains(d.text, "Read-only file system") && strings.Contains(d.text, "changed"), "its commands are in the sandbox: %s", head(d.text))
	d = m.got(log)
	c.that(strings.Contains(d.text, "new.txt"), "cachebro log: %s", d.text)
	d = m.got(status)
	c.that(strings.Contains(d.text, "mounted"), "cachebro status: %s", d.text)
	d = m.got(undo)
	diff := differences(before, snapshot(b.project))
	c.that(strings.Contains(d.text, "done: ") && len(diff) == 0, "cachebro undo %v: %s", diff, d.text)
	out, err = b.tool("down", "--yes", b.project)
	c.that(err == nil, "down: %s", tailLine(out))
}
