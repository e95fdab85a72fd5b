package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// projects checks sessions that work in several projects. One session changes files in a second
// mounted project, which it has by --add-dir. It does so with a tool that names the file and with
// commands that do not say what they change. Another session moves to a worktree while
// CLAUDE_PROJECT_DIR stays the same. In each project, the prompt and the call must be known, an
// undo must name the other projects, and a second read must give only the one-line answer.
func projects(b *bench, c *checks) {
	second := filepath.Join(b.dir, "second")
	defer os.RemoveAll(second)
	make := exec.Command("sh", "-ec", "mkdir second; cd second; git init -qb main; seq 1 3000 >lib.txt; echo 1 >count.txt; git add .; git -c user.name=t -c user.email=t@example.com commit -qm start")
	make.Dir = b.dir
	out, err := make.CombinedOutput()
	c.that(err == nil, "a second project: %v %s", err, out)
	for _, dir := range []string{b.project, second} {
		text, err := b.tool("mount", dir)
		c.that(err == nil, "mount: %s", tailLine(text))
	}
	defer func() {
		text, err := b.toolIn(b.dir, "umount", second)
		c.that(err == nil, "umount the second: %s", tailLine(text))
	}()
	text, err := b.tool("up", "--yes", "--client", "claude", "--worktrees", b.project)
	c.that(err == nil, "up --worktrees: %s", tailLine(text))
	defer func() {
		forks, _ := filepath.Glob(b.project + ".worktrees/*")
		for _, f := range forks {
			text, err := b.toolIn(b.dir, "fork", "drop", "--force", f)
			c.that(err == nil, "drop what is left: %s", tailLine(text))
		}
		text, err := b.toolIn(b.dir, "down", "--yes", b.project)
		c.that(err == nil, "down: %s", tailLine(text))
	}()
	first, before := snapshot(b.project), snapshot(second)
	lib := filepath.Join(second, "lib.txt")

	m := b.conv("both")
	m.do(shell("echo 2 >" + filepath.Join(second, "count.txt") + "; echo both >notes.txt"))
	m.do(call{Name: "Read", Input: map[string]any{"file_path": lib}})
	again := m.do(call{Name: "Read", Input: map[string]any{"file_path": lib}})
	m.do(call{Name: "Edit", Input: map[string]any{"file_path": lib, "old_string": "1500\n", "new_string": "fifteen hundred\n"}})
	m.say("finished")
	r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), []string{"--add-dir", second})...))
	ended(c, r, "claude --add-dir")
	d := m.got(again)
	c.that(strings.Contains(d.text, "not repeated") && len(d.text) < 1000, "a second read there is a line: %s", head(d.text))
	text, err = b.toolIn(second, "log")
	c.that(err == nil && strings.Contains(text, "SCRIPT:both") && strings.Contains(text, "Edit lib.txt") && strings.Contains(text, "echo 2 >"), "its log has the prompt, the edit and the command: %s", text)
	text, err = b.tool("undo", "--prompt", "last", "--yes")
	c.that(err == nil && strings.Contains(text, "also changed 2 files in "+second) && strings.Contains(text, "cachebro undo --dir "+second+" --prompt "), "undo names the other: %s", text)
	diff := differences(first, snapshot(b.project))
	c.that(len(diff) == 0, "and takes back what was done here %v", diff)
	_, command, _ := strings.Cut(text, ": cachebro undo ")
	command, _, _ = strings.Cut(command, "\n")
	text, err = b.tool(append(append([]string{"undo"}, strings.Fields(command)...), "--yes")...)
	diff = differences(before, snapshot(second))
	c.that(err == nil && len(diff) == 0, "its command takes back what was done there %v: %s", diff, tailLine(text))

	// In a later prompt, only a command writes to the second project. The second project learns of
	// the prompt from the first project.
	m = b.conv("command")
	m.do(shell("cd " + second + " && sed -i s/1/one/ count.txt"))
	m.say("finished")
	r = b.start(append([]string{b.claude}, claudeArgs(m.ready(), []string{"--add-dir", second})...))
	ended(c, r, "a command alone")
	text, err = b.toolIn(second, "undo", "--prompt", "last", "--yes")
	diff = differences(before, snapshot(second))
	c.that(err == nil && len(diff) == 0, "undo there %v: %s", diff, tailLine(text))

	fork := filepath.Join(b.project+".worktrees", "moved")
	m = b.conv("moved")
	m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "moved"}})
	m.do(call{Name: "Read", Input: map[string]any{"file_path": filepath.Join(fork, "src/mid.go")}})
	again = m.do(call{Name: "Read", Input: map[string]any{"file_path": filepath.Join(fork, "src/mid.go")}})
	m.do(shell("sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go"))
	m.do(call{Name: "Edit", Input: map[string]any{"file_path": filepath.Join(fork, "src/mid.go"), "old_string": "var v1100 =", "new_string": "var changed ="}})
	m.say("finished")
	r = b.start(append([]string{b.claude}, claudeArgs(m.ready(), nil)...))
	ended(c, r, "EnterWorktree")
	d = m.got(again)
	c.that(strings.Contains(d.text, "not repeated") && len(d.text) < 1000, "a second read in the worktree is a line: %s", head(d.text))
	text, err = b.toolIn(fork, "log")
	c.that(err == nil && strings.Contains(text, "SCRIPT:moved") && strings.Contains(text, "Edit src/mid.go") && strings.Contains(text, "sed -i"), "the worktree's log has prompt and calls: %s", text)
	text, err = b.toolIn(fork, "undo", "--prompt", "last", "--yes")
	c.that(err == nil, "undo --prompt last in the worktree: %s", text)
	status := exec.Command("git", "status", "--porcelain", "src")
	status.Dir = fork
	out, err = status.CombinedOutput()
	c.that(errors.Join(err) == nil && len(out) == 0, "takes back all of it: %s", out)
	diff = differences(first, snapshot(b.project))
	c.that(len(diff) == 0, "the project is untouched %v", diff)

	// A server that is started in the worktree edits the worktree's file.
	b.extra = []string{"CLAUDE_PROJECT_DIR=" + b.project}
	defer func() { b.extra = nil }()
	serve := exec.Command(b.cachebro, "serve", "--tools=all")
	serve.Dir, serve.Env = fork, b.env()
	serve.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"served.txt","content":"here\n"}}}
`)
	out, err = serve.CombinedOutput()
	_, missing := os.Stat(filepath.Join(fork, "served.txt"))
	_, there := os.Stat(filepath.Join(b.project, "served.txt"))
	c.that(err == nil && missing == nil && errors.Is(there, os.ErrNotExist), "serve in the worktree writes there: %v %s", err, tailLine(string(out)))
	line := exec.Command(b.cachebro, "statusline")
	line.Dir, line.Env = b.dir, b.env()
	line.Stdin = strings.NewReader(`{"session_id":"` + r.session() + `","cwd":"` + fork + `","workspace":{"current_dir":"` + fork + `","project_dir":"` + b.project + `"}}`)
	out, err = line.CombinedOutput()
	c.that(err == nil && strings.Contains(string(out), "worktree-moved"), "and the status line shows its branch: %s", out)
}
