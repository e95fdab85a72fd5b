package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// back checks that undo accepts what the log prints: numbers with and without #, and a whole line
// of the log. It also checks three other things. A redo is part of its plan. With --git, undo
// removes a prompt's git worktree only if nothing in it would be lost. A session is known even if
// its hooks did not run.
func back(b *bench, c *checks) {
	defer func() { b.extra = nil }()
	start := snapshot(b.project)
	text, err := b.tool("mount", b.project)
	c.that(err == nil, "mount: %s", tailLine(text))

	// In the first session no hook runs, so the session is known only from the environment of its
	// commands.
	m := b.conv("unheard")
	m.do(shell("sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go; echo new >new.txt"))
	m.say("finished")
	r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), nil)...))
	ended(c, r, "a session without hooks")
	id := r.session()
	text, _ = b.tool("doctor")
	c.that(strings.Contains(text, id+" is known only from environment variables"), "doctor says what is missing: %s", lineWith(text, id))
	text, err = b.tool("log", "--session", id[:8])
	c.that(err == nil && strings.Contains(text, "A new.txt"), "log by the beginning of its name: %s", text)
	text, err = b.tool("undo", "--session", "last", "--yes")
	c.that(err == nil && len(differences(start, snapshot(b.project))) == 0, "undo --session last: %s", text)

	text, err = b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(text))
	defer func() {
		text, err := b.toolIn(b.dir, "down", "--yes", b.project)
		c.that(err == nil, "down: %s", tailLine(text))
	}()
	one, two, three := b.conv("one"), b.conv("two"), b.conv("three")
	one.do(shell("sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go; sed -i 's/^var v0501.*/var v0501 = -1/' src/big.go; rm src/huge.go"))
	two.do(b.read("src/mid.go"))
	two.do(b.edit("src/mid.go", "line 7 of this", "line seven"), call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "two.txt"), "content": "two\n"}})
	three.do(shell("echo three >three.txt; git worktree add -q .claude/worktrees/tool -b tool"))
	three.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "entered"}})
	three.do(shell("echo in >in.txt"))
	for _, v := range []*conv{one, two, three} {
		v.say("finished")
	}
	r = b.converse(one.ready(), two.ready(), three.ready())
	ended(c, r, "three prompts")
	log, err := b.tool("log")
	c.that(err == nil && !strings.Contains(log, "#"), "the log shows numbers without a mark: %s", log)
	number := func(part string) string {
		return regexp.MustCompile(`\d+`).FindString(lineWith(log, part))
	}
	sed := number("sed -i")
	c.that(strings.Count(log, "rm src/huge.go") == 1 && sed != "", "three commands in a call are one line, %s", sed)
	// Run the line in a shell, as a person would, because an unquoted # begins a comment there.
	typed := func(line string) (string, error) {
		cmd := exec.Command("bash", "-c", line)
		cmd.Dir, cmd.Env = b.project, append(b.env(), "PATH="+filepath.Dir(b.cachebro)+":"+os.Getenv("PATH"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	before := snapshot(b.project)
	text, err = typed("cachebro undo -y " + sed)
	diff := differences(before, snapshot(b.project))
	c.that(err == nil && strings.Join(diff, " ") == "+src/huge.go src/big.go", "undo of its number takes back all three %v: %s", diff, text)
	text, err = typed("cachebro redo -y")
	c.that(err == nil && len(differences(before, snapshot(b.project))) == 0 && strings.Contains(text, "cachebro undo reverses this"), "redo: %s", text)
	text, err = typed("cachebro undo -y '#" + sed + "' && cachebro redo -y")
	c.that(err == nil && len(differences(before, snapshot(b.project))) == 0, "with the mark too: %s", text)
	edit := number("Edit src/mid.go")
	shown, err := typed("cachebro show " + edit + " && cachebro diff " + sed + " " + edit)
	c.that(err == nil && strings.Contains(shown, "line seven") && strings.Contains(shown, "+++ b/src/mid.go"), "show and diff take them bare: %s", head(shown))

	// A redo still belongs to its plan if the redo left a conflict.
	prompts := regexp.MustCompile(`prompt ([0-9a-f]{8})`).FindAllStringSubmatch(log, -1)
	if len(prompts) != 3 {
		c.that(false, "three prompts in the log: %v", prompts)
		return
	}
	second, first := prompts[1][1], prompts[2][1]
	text, err = typed("cachebro undo -y --prompt " + first + " && cachebro undo -y --prompt " + second + " && sed -i 's/^var v1200.*/var v1200 = -1/' src/mid.go && echo mine >two.txt")
	c.that(err == nil, "two undos, and a person's change: %s", text)
	text, err = typed("cachebro redo -y")
	c.that(err != nil && strings.Contains(text, "conflict two.txt") && strings.Contains(text, "conflict src/mid.go"), "a redo that meets it: %s", text)
	text, _ = typed("cachebro redo -y --merge")
	mid, _ := os.ReadFile(filepath.Join(b.project, "src/mid.go"))
	_, gone := os.Stat(filepath.Join(b.project, "src/huge.go"))
	c.that(strings.Contains(string(mid), "line seven") && strings.Contains(string(mid), "v1200 = -1") && gone == nil, "--merge goes on with the same plan: %s", text)
	text, err = typed("cachebro redo -y --force")
	own, _ := os.ReadFile(filepath.Join(b.project, "two.txt"))
	mid, _ = os.ReadFile(filepath.Join(b.project, "src/mid.go"))
	c.that(err == nil && string(own) == "two\n" && strings.Contains(string(mid), "v1200 = -1"), "--force too, with what was left alone: %s", text)
	log, err = b.tool("log")
	redone := false
	for line := range strings.Lines(log) {
		redone = redone || strings.Contains(line, " redo of: prompt ") && strings.Contains(line, "reversed by")
	}
	c.that(err == nil && !redone, "none of them is reversed by the next: %s", log)
	text, err = typed("cachebro redo -y")
	_, gone = os.Stat(filepath.Join(b.project, "src/huge.go"))
	c.that(err == nil && errors.Is(gone, os.ErrNotExist), "now the plan before is next: %s", text)

	// The undo removes the worktree that a tool left clean, and keeps the worktree with uncommitted
	// work.
	text, err = typed("cachebro undo -y --git --prompt last")
	_, clean := os.Stat(filepath.Join(b.project, ".claude/worktrees/tool"))
	work, _ := os.ReadFile(filepath.Join(b.project, ".claude/worktrees/entered/in.txt"))
	c.that(err != nil && clean == nil && string(work) == "in\n" && strings.Contains(text, "entered contains uncommitted files"), "undo --git names the one with work, and does nothing: %s", text)
	text, err = typed("rm .claude/worktrees/entered/in.txt && cachebro undo -y --git --prompt last")
	list, _ := exec.Command("git", "-C", b.project, "worktree", "list").Output()
	_, clean = os.Stat(filepath.Join(b.project, ".claude/worktrees/tool"))
	c.that(errors.Is(clean, os.ErrNotExist) && strings.Count(string(list), "\n") == 1, "then git removes them, locked by the client or not, %v: %s %s", err, text, list)
}
