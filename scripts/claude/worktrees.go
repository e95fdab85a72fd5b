package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// worktrees checks that with "up --worktrees" the client's worktrees are forks. A fork has the
// files that git ignores, its own branch and its own history. Work in a fork does not change the
// project until "fork merge". A fork that contains work which exists nowhere else is not removed.
func worktrees(b *bench, c *checks) {
	for name, text := range map[string]string{".gitignore": ".env\nnode_modules/\n", ".env": "KEY=1\n", "node_modules/m/index.js": "{}\n", "notes.txt": "not committed\n"} {
		p := filepath.Join(b.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			c.that(false, "the project: %v", err)
			return
		}
	}
	settings := filepath.Join(b.dir, "home", ".claude", "settings.json")
	untouched, _ := os.ReadFile(settings)
	out, err := b.tool("up", "--yes", "--client", "claude", "--worktrees", b.project)
	c.that(err == nil, "up --worktrees: %s", tailLine(out))
	defer func() {
		forks, _ := filepath.Glob(b.project + ".worktrees/*")
		for _, f := range forks {
			out, err := b.toolIn(b.dir, "fork", "drop", "--force", f)
			c.that(err == nil, "drop what is left: %s", tailLine(out))
		}
		out, err := b.toolIn(b.dir, "down", "--yes", b.project)
		c.that(err == nil, "down: %s", tailLine(out))
		now, _ := os.ReadFile(settings)
		c.that(string(untouched) == string(now), "the client's settings are as before, to the byte")
	}()
	before := snapshot(b.project)
	fork := func(name string) string { return filepath.Join(b.project+".worktrees", name) }
	is := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	branches := func() string {
		out, _ := exec.Command("git", "-C", b.project, "branch", "--format=%(refname:short) %(worktreepath)").Output()
		return string(out)
	}
	look := "pwd; git branch --show-current; cat .env notes.txt node_modules/m/index.js"

	m := b.conv("named")
	first := m.do(shell(look))
	m.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(fork("feature"), "new.txt"), "content": "new\n"}})
	m.do(shell("sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go; echo KEY=2 >.env; git -c user.name=t -c user.email=t@example.com commit -qam feature"))
	m.say("finished")
	r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), []string{"--worktree", "feature"})...))
	ended(c, r, "claude --worktree feature")
	d := m.got(first)
	c.that(strings.Contains(d.text, fork("feature")+"\n"), "the session is in the fork: %s", head(d.text))
	c.that(strings.Contains(d.text, "worktree-feature\n"), "on a branch of its own")
	c.that(strings.Contains(d.text, "KEY=1\nnot committed\n{}"), "with .env, node_modules and what is not committed")
	diff := differences(before, snapshot(b.project))
	c.that(len(diff) == 0, "the project is untouched %v", diff)
	out, err = b.tool("fork")
	c.that(err == nil && strings.Contains(out, fork("feature")) && strings.Contains(out, ", mounted"), "cachebro fork lists it: %s", tailLine(out))
	out, err = b.toolIn(fork("feature"), "log")
	c.that(err == nil && strings.Contains(out, "SCRIPT:named") && strings.Contains(out, "Write new.txt"), "the fork's log has the prompt and its tool calls: %s", head(out))

	m = b.conv("again")
	first = m.do(shell("pwd; cat .env new.txt"))
	m.say("finished")
	r = b.start(append([]string{b.claude}, claudeArgs(m.ready(), []string{"--worktree", "feature"})...))
	ended(c, r, "claude --worktree feature again")
	c.that(strings.Contains(m.got(first).text, fork("feature")+"\nKEY=2\nnew"), "it is the same fork: %s", head(m.got(first).text))

	out, err = b.toolIn(b.project, "fork", "merge", fork("feature"))
	c.that(err == nil, "fork merge: %s", tailLine(out))
	diff = differences(before, snapshot(b.project))
	c.that(strings.Join(diff, " ") == "+new.txt src/big.go", "brings what git does not ignore %v", diff)
	before = snapshot(b.project)

	m = b.conv("tools")
	enter := m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "idle"}})
	inside := m.do(shell(look))
	exit := m.do(call{Name: "ExitWorktree", Input: map[string]any{"action": "remove", "discard_changes": true}})
	m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "busy"}})
	m.do(shell("echo only here >only.txt"))
	refused := m.do(call{Name: "ExitWorktree", Input: map[string]any{"action": "remove", "discard_changes": true}})
	m.say("finished")
	ended(c, b.with(m.ready()), "EnterWorktree and ExitWorktree")
	c.that(strings.Contains(m.got(inside).text, fork("idle")+"\nworktree-idle\nKEY=1\n"), "EnterWorktree goes into a fork: %s, %s", head(m.got(enter).text), head(m.got(inside).text))
	c.that(!is(fork("idle")) && strings.Contains(m.got(exit).text, "removed"), "ExitWorktree removes it: %s", head(m.got(exit).text))
	c.that(!strings.Contains(branches(), "idle") && strings.Contains(branches(), "worktree-busy "+fork("busy")), "for git too: %q", branches())
	c.that(is(filepath.Join(fork("busy"), "only.txt")) && strings.Contains(m.got(refused).text, "kept at"), "one with what is nowhere else is kept, and the model hears of it: %s", head(m.got(refused).text))

	m, sub := b.conv("isolated"), b.conv("isolated-sub")
	seen := sub.do(shell(look + "; echo sub >sub.txt; rm src/mid.go"))
	sub.say("done")
	sub.ready()
	a := agent("isolated-sub")
	a.Input["isolation"] = "worktree"
	m.do(a)
	m.do(shell("sleep 6")) // wait, because the agent works in the background
	m.say("finished")
	ended(c, b.with(m.ready()), "a sub-agent with a worktree")
	d = sub.got(seen)
	where, _, _ := strings.Cut(d.text, "\n")
	c.that(strings.HasPrefix(where, fork("agent-")) && strings.Contains(d.text, "KEY=1\n"), "it works in a fork: %s", head(d.text))
	diff = differences(before, snapshot(b.project))
	c.that(len(diff) == 0, "the project is untouched %v", diff)
	out, err = b.tool("fork", "merge", where)
	diff = differences(before, snapshot(b.project))
	c.that(err == nil && strings.Join(diff, " ") == "+sub.txt src/mid.go", "what it did is merged %v: %s", diff, tailLine(out))
	out, err = b.tool("undo", "--yes")
	diff = differences(before, snapshot(b.project))
	c.that(err == nil && len(diff) == 0, "and an undo takes the merge back %v: %s", diff, tailLine(out))
}
