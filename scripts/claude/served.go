package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// served checks that our MCP server follows its client to projects other than the one in which it
// was started. These are a project that the session has by --add-dir, a git worktree of the first
// project, a fork, and another worktree, which a sub-agent uses. The server must not open a third
// project, which the client does not name.
func served(b *bench, c *checks) {
	second, third := filepath.Join(b.dir, "second"), filepath.Join(b.dir, "third")
	defer os.RemoveAll(second)
	defer os.RemoveAll(third)
	begin := exec.Command("sh", "-ec", "for p in second third; do mkdir $p; seq 1 3000 >$p/lib.txt; echo 1 >$p/count.txt; done")
	begin.Dir = b.dir
	out, err := begin.CombinedOutput()
	c.that(err == nil, "two more projects: %v %s", err, out)
	text, err := b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(text))
	for _, dir := range []string{second, third} {
		text, err := b.tool("mount", dir)
		c.that(err == nil, "mount: %s", tailLine(text))
	}
	defer func() {
		forks, _ := filepath.Glob(b.project + ".worktrees/*")
		for _, f := range forks {
			out, err := b.toolIn(b.dir, "fork", "drop", "--force", f)
			c.that(err == nil, "drop what is left: %s", out)
		}
		for _, dir := range []string{second, third} {
			text, err := b.toolIn(b.dir, "umount", dir)
			c.that(err == nil, "umount: %s", text)
		}
		text, err := b.toolIn(b.dir, "down", "--yes", b.project)
		c.that(err == nil, "down: %s", tailLine(text))
	}()
	config, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"cachebro": map[string]any{"command": b.cachebro, "args": []string{"serve", "--tools=all"}}}}) // a map of strings can always be encoded
	ours := func(tool string, args map[string]any) call { return call{Name: "mcp__cachebro__" + tool, Input: args} }
	read := func(path string) call { return ours("read_file", map[string]any{"path": path}) }
	edit := func(path, from, to string) call {
		return ours("edit_file", map[string]any{"path": path, "old_string": from, "new_string": to})
	}
	session := func(m *conv) run {
		m.say("finished")
		args := []string{"--add-dir", second, "--mcp-config", string(config), "--strict-mcp-config"}
		return b.start(append([]string{b.claude}, claudeArgs(m.ready(), args)...))
	}
	has := func(dir, path, part string) bool {
		text, err := os.ReadFile(filepath.Join(dir, path))
		return err == nil && strings.Contains(string(text), part)
	}

	first, other := snapshot(b.project), snapshot(second)
	m := b.conv("added")
	here := m.do(read("src/mid.go"))
	there := m.do(read(filepath.Join(second, "lib.txt")))
	again := m.do(read(filepath.Join(second, "lib.txt")))
	m.do(edit(filepath.Join(second, "lib.txt"), "1500\n", "fifteen hundred\n"))
	m.do(edit("src/mid.go", "line 7 of this", "line seven"))
	closed := m.do(read(filepath.Join(third, "lib.txt")))
	m.do(shell("cd " + second))
	moved := m.do(read("count.txt"))
	note := m.do(ours("undo", map[string]any{"prompt": "last", "paths": []string{filepath.Join(b.project, "src")}, "dry_run": true}))
	ended(c, session(m), "a session with --add-dir")
	c.that(isFull(m.got(here), 300), "a file of the first project: %s", head(m.got(here).text))
	c.that(strings.HasPrefix(m.got(there).text, "1\n2\n"), "and one of the added: %s", head(m.got(there).text))
	c.that(strings.HasPrefix(m.got(again).text, "[unchanged"), "which is a line the second time: %s", head(m.got(again).text))
	c.that(has(second, "lib.txt", "fifteen hundred") && has(b.project, "src/mid.go", "line seven"), "each edit is in its project")
	c.that(strings.Contains(m.got(closed).text, "not inside the project"), "one that the client does not name stays closed: %s", head(m.got(closed).text))
	c.that(strings.HasPrefix(m.got(moved).text, "1\n"), "a relative name is of the project that the session is in: %s", head(m.got(moved).text))
	c.that(strings.Contains(m.got(note).text, "also changed 1 file in "+second), "undo over MCP names the other project: %s", m.got(note).text)
	text, err = b.toolIn(second, "log")
	c.that(err == nil && strings.Contains(text, "SCRIPT:added") && strings.Contains(text, "edit_file") && strings.Contains(text, "lib.txt"), "the added project's log has prompt and call: %s", text)
	text, err = b.toolIn(second, "undo", "--prompt", "last", "--yes")
	c.that(err == nil && len(differences(other, snapshot(second))) == 0, "undo there: %s", text)
	text, err = b.tool("undo", "--prompt", "last", "--yes")
	c.that(err == nil && len(differences(first, snapshot(b.project))) == 0, "undo here: %s", text)

	// There are two git worktrees inside the mount. The client enters one, and starts a sub-agent
	// in the other.
	m = b.conv("inside")
	sub := b.conv("inside-sub")
	subRead := sub.do(shell("pwd"))
	sub.do(edit("src/big.go", "line 9 of this", "line nine"))
	sub.say("done")
	sub.ready()
	a := agent("inside-sub")
	a.Input["isolation"] = "worktree"
	m.do(a)
	m.do(shell("sleep 3")) // wait, because the agent works in the background
	m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "wt"}})
	m.do(edit("src/mid.go", "line 8 of this", "line eight"))
	ended(c, session(m), "worktrees inside of the project")
	where, _, _ := strings.Cut(sub.got(subRead).text, "\n")
	wt := filepath.Join(b.project, ".claude/worktrees/wt")
	c.that(has(wt, "src/mid.go", "line eight") && !has(b.project, "src/mid.go", "line eight"), "a relative name is of the worktree")
	c.that(where != b.project && has(where, "src/big.go", "line nine") && !has(b.project, "src/big.go", "line nine"), "and a sub-agent's of its own, %s", where)

	// The session enters a fork, which is another project.
	text, err = b.tool("init", "--yes", "--client", "claude", "--worktrees")
	c.that(err == nil, "init --worktrees: %s", tailLine(text))
	fork := filepath.Join(b.project+".worktrees", "moved")
	first = snapshot(b.project)
	m = b.conv("moved")
	m.do(read("src/mid.go"))
	m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "moved"}})
	full := m.do(read("src/mid.go"))
	again = m.do(read("src/mid.go"))
	m.do(edit("src/mid.go", "var v1100 =", "var changed ="))
	m.do(ours("write_file", map[string]any{"path": "new.txt", "content": "new\n"}))
	m.do(edit(filepath.Join(b.project, "src/big.go"), "line 3 of this", "line three"))
	ended(c, session(m), "EnterWorktree into a fork")
	c.that(isFull(m.got(full), 300), "the fork's file is another one: %s", head(m.got(full).text))
	c.that(strings.HasPrefix(m.got(again).text, "[unchanged"), "a second read there is a line: %s", head(m.got(again).text))
	c.that(has(fork, "src/mid.go", "var changed =") && has(fork, "new.txt", "new"), "edits are the fork's")
	diff := differences(first, snapshot(b.project))
	c.that(strings.Join(diff, " ") == "src/big.go", "the project has the one that named it: %v", diff)
	text, err = b.toolIn(fork, "undo", "--prompt", "last", "--yes")
	c.that(err == nil && !has(fork, "new.txt", "") && !has(fork, "src/mid.go", "changed") && strings.Contains(text, "also changed 1 file in "+b.project), "undo in the fork: %s", text)
	text, err = b.tool("undo", "--prompt", "last", "--yes")
	c.that(err == nil && len(differences(first, snapshot(b.project))) == 0, "undo in the project: %s", text)
}
