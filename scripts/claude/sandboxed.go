package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sandboxed checks the client's sandbox (bubblewrap), in which commands see everything outside of
// the project read-only and cannot open Unix sockets. The settings that init writes allow
// cachebro's own commands to run outside the sandbox.
func sandboxed(b *bench, c *checks) {
	config := filepath.Join(b.dir, "home", ".claude", "settings.json")
	b.extra = []string{"PATH=" + filepath.Dir(b.cachebro) + ":" + os.Getenv("PATH")}
	defer func() { b.extra = nil }()
	settings, _ := json.Marshal(map[string]any{"sandbox": map[string]any{"enabled": true, "autoAllowBashIfSandboxed": true, "enableWeakerNestedSandbox": true}}) // a map of strings and booleans can always be encoded
	c.that(os.WriteFile(config, settings, 0o600) == nil, "the sandbox is switched on")
	out, err := b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(out))
	// Of twenty commands, the log must show those that changed something. It must show nothing that
	// the sandbox does around each command.
	many := b.conv("many")
	var wanted []string
	for i, command := range []string{
		"cat src/mid.go | head -n 3", "echo 1 >one.txt", "ls -la", "git status --short", "sed -i s/1/2/ one.txt", "grep -c var src/big.go", "mkdir -p made/deep && echo d >made/deep/d.txt",
		"cat one.txt", "mv one.txt two.txt", "wc -l src/*.go", "true", "touch t.tmp && rm t.tmp", "rm src/huge.go", "find . -name '*.txt'", "head -n 1 two.txt", "printf 'x\\n' >>two.txt",
		"git log --oneline", "chmod 600 two.txt", "pwd", "git diff --stat",
	} {
		many.do(shell(command))
		if slices.Contains([]int{1, 4, 6, 8, 12, 15, 17}, i) {
			wanted = append(wanted, command)
		}
	}
	many.say("finished")
	start := snapshot(b.project)
	ended(c, b.start(append([]string{b.claude}, claudeArgs(many.ready(), nil)...)), "twenty commands in the sandbox")
	out, err = b.tool("log", "--actions", "--json")
	var told []string
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var a struct {
			Command string `json:"command"`
			Count   int    `json:"count"`
		}
		if derr := d.Decode(&a); derr != nil {
			c.that(false, "log --actions --json: %v", derr)
			break
		}
		if a.Count > 0 && !strings.HasPrefix(a.Command, "claude ") { // do not count the file .claude/.cc-writes, which the client leaves behind
			told = append(told, a.Command)
		}
	}
	slices.Reverse(told)
	c.that(err == nil && slices.Equal(told, wanted), "the log has the commands that changed something, and no others: %q", told)
	out, err = b.tool("log")
	c.that(err == nil && !strings.Contains(out, ".mcp.json") && !strings.Contains(out, ".bashrc"), "and no placeholder: %s", out)
	out, err = b.tool("undo", "--yes")
	c.that(err == nil && strings.Contains(out, "chmod 600 two.txt"), "undo takes the newest one: %s", out)
	out, err = b.tool("undo", "--prompt", "last", "--yes")
	around := differences(start, snapshot(b.project))
	c.that(err == nil && len(around) == 0, "undo of the prompt: %v %s", around, tailLine(out))

	whole, _, id, err := b.runner()
	c.that(err == nil, "a test runner: %v", err)
	before := snapshot(b.project)
	m := b.conv("inside")
	probe := m.do(shell("touch " + filepath.Join(b.dir, "outside") + "; echo changed >src/new.txt; cat src/new.txt"))
	log := m.do(shell("cachebro log"))
	status := m.do(shell("cachebro status"))
	tests := m.do(shell("./pytest -v"))
	output := m.do(shell("cachebro output " + id))
	part := m.do(shell("cachebro output " + id + " --grep number_07"))
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
	d = m.got(output)
	c.that(strings.Contains(m.got(tests).text, " output "+id), "an output is folded: %s", m.got(tests).text)
	c.that(strings.TrimSpace(d.text) == strings.TrimSpace(whole), "cachebro output gives the whole of it: %d of %d bytes, %s", len(d.text), len(whole), head(d.text))
	c.that(strings.Contains(m.got(part).text, "8:tests/test_sums.py::test_number_07"), "and a part of it: %s", m.got(part).text)
	d = m.got(undo)
	diff := differences(before, snapshot(b.project))
	c.that(strings.Contains(d.text, "done: ") && len(diff) == 0, "cachebro undo %v: %s", diff, d.text)
	out, err = b.tool("down", "--yes", b.project)
	c.that(err == nil, "down: %s", tailLine(out))
}
