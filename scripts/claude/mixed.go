package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// mixed checks what "the last prompt" means when prompts do not simply follow each other. A prompt
// is typed while a command runs, a hook makes the client continue, an agent starts an agent, a
// session is forked and both continue at the same time, and a session is cleared.
func mixed(b *bench, c *checks) {
	text, err := b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(text))
	defer func() {
		text, err := b.toolIn(b.dir, "down", "--yes", b.project)
		c.that(err == nil, "down: %s", tailLine(text))
	}()
	is := func(name string) bool { _, err := os.Stat(filepath.Join(b.project, name)); return err == nil }
	files := func(names string) (there string) {
		for _, name := range strings.Fields(names) {
			if is(name) {
				there += name + " "
			}
		}
		return strings.TrimSpace(there)
	}
	undo := func(why, leaves, takes string, args ...string) {
		before := files(leaves + " " + takes)
		text, err := b.tool(append(append([]string{"undo"}, args...), "--yes")...)
		after := files(leaves + " " + takes)
		c.that(err == nil && before == strings.TrimSpace(leaves+" "+takes) && after == leaves, "%s: before %q, after %q: %s", why, before, after, text)
	}

	one, two := b.conv("queued-one"), b.conv("queued-two")
	one.do(shell("echo a >a.txt; sleep 3; echo b >b.txt"))
	one.say("one")
	two.do(shell("echo c >c.txt"))
	two.do(b.edit("src/mid.go", "line 7 of this", "line seven"), shell("echo d >d.txt"))
	two.say("two")
	ended(c, b.queue("sleep 3", one.ready(), two.ready()), "a prompt typed while a command runs")
	log, err := b.tool("log")
	c.that(err == nil, "log: %s", log)
	c.that(strings.Contains(log, "SCRIPT:queued-two") && strings.Contains(log, "SCRIPT:queued-one"), "both prompts are in the log")
	mid := filepath.Join(b.project, "src/mid.go")
	undo("the typed one alone", "a.txt b.txt", "c.txt d.txt", "--prompt", "last")
	now, err := os.ReadFile(mid)
	c.that(err == nil && string(now) == lines(1001, 300), "its edit too")

	// A Stop hook makes the client continue although no person typed anything.
	hook := filepath.Join(b.dir, "go-on.sh")
	script := "#!/bin/sh\n[ -e " + b.dir + "/went-on ] || { : >" + b.dir + "/went-on; echo '{\"decision\":\"block\",\"reason\":\"SCRIPT:hooked goes on\"}'; }\n"
	c.that(os.WriteFile(hook, []byte(script), 0o755) == nil, "a Stop hook")
	settings, _ := json.Marshal(map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": hook}}}}}}) // a map of strings can always be encoded
	m := b.conv("hooked")
	m.do(shell("echo e >e.txt"))
	m.say("done?")
	m.do(shell("echo f >f.txt"))
	m.say("done")
	ended(c, b.start(append([]string{b.claude}, claudeArgs(m.ready(), []string{"--settings", string(settings)})...)), "a hook has the client go on")
	undo("what came before and after the hook", "", "e.txt f.txt", "--prompt", "last")

	// Changes made by an agent of an agent belong to the same prompt.
	m, sub, inner := b.conv("nested"), b.conv("nested-sub"), b.conv("nested-inner")
	inner.do(shell("sleep 1; echo g >g.txt"))
	inner.say("inner done")
	inner.ready()
	sub.do(shell("echo h >h.txt"))
	sub.do(agent("nested-inner"))
	sub.do(shell("sleep 2; echo i >i.txt"))
	sub.say("sub done")
	sub.ready()
	m.do(agent("nested-sub"))
	m.do(shell("sleep 4; echo j >j.txt"))
	m.say("finished")
	ended(c, b.start(append([]string{b.claude}, claudeArgs(m.ready(), nil)...)), "an agent of an agent")
	nested := files("g.txt h.txt i.txt j.txt")
	c.that(strings.Contains(nested, "h.txt i.txt j.txt"), "all of them worked: %s", nested)
	undo("all that they did", "", nested, "--prompt", "last")

	// A session is forked, and both sessions continue at the same time.
	m = b.conv("trunk")
	m.do(shell("echo k >k.txt"))
	m.say("finished")
	r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), nil)...))
	ended(c, r, "a session")
	trunk := r.session()
	fork, on := b.conv("forked"), b.conv("goes-on")
	fork.do(shell("echo l >l.txt"))
	fork.do(shell("echo m >m.txt"))
	fork.say("finished")
	on.do(shell("echo n >n.txt"))
	on.say("finished")
	forked := ""
	beside := *b
	on.steps[1].act = func() { // runs while the first session waits for its model
		r := beside.start(append([]string{b.claude}, claudeArgs(fork.ready(), []string{"--resume", trunk, "--fork-session"})...))
		ended(c, r, "its fork, at the same time")
		forked = r.session()
	}
	ended(c, b.start(append([]string{b.claude}, claudeArgs(on.ready(), []string{"--resume", trunk})...)), "the session goes on")
	c.that(forked != "" && forked != trunk, "the fork is a session of its own: %s", forked)
	undo("the fork's prompt began last", "k.txt n.txt", "l.txt m.txt", "--prompt", "last")
	text, err = b.tool("redo", "--yes")
	c.that(err == nil, "redo: %s", tailLine(text))
	undo("the trunk's session by its name", "l.txt m.txt", "k.txt n.txt", "--session", trunk[:8])
	undo("the fork's", "", "l.txt m.txt", "--session", forked[:8])

	// After /clear, the client is in another session.
	m, two = b.conv("cleared-one"), b.conv("cleared-two")
	m.do(shell("echo o >o.txt"))
	m.say("finished")
	two.do(shell("echo p >p.txt"))
	two.say("finished")
	r = b.converse(m.ready(), "/clear", two.ready())
	ended(c, r, "/clear between two prompts")
	before := r.session()
	undo("the session after it", "o.txt", "p.txt", "--session", "last")
	undo("the session before it", "", "o.txt", "--session", before)
}
