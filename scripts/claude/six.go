package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// six checks one session of six prompts. In each prompt, the changes have another origin: the model
// alone, a sub-agent, a background command, a worktree, a second project, a detached child. An undo
// of each prompt must restore every project byte for byte, or name what it does not restore. A redo
// must restore the state after the prompt.
func six(b *bench, c *checks) {
	second := filepath.Join(b.dir, "second")
	defer os.RemoveAll(second)
	begin := exec.Command("sh", "-ec", "mkdir second; cd second; git init -qb main; seq 1 300 >lib.txt; echo 1 >count.txt; git add .; git -c user.name=t -c user.email=t@example.com commit -qm start")
	begin.Dir = b.dir
	out, err := begin.CombinedOutput()
	c.that(err == nil, "a second project: %v %s", err, out)
	text, err := b.tool("mount", second)
	c.that(err == nil, "mount the second: %s", tailLine(text))
	defer func() {
		text, err := b.toolIn(b.dir, "umount", second)
		c.that(err == nil, "umount the second: %s", tailLine(text))
	}()
	text, err = b.tool("up", "--yes", "--client", "claude", b.project)
	c.that(err == nil, "up: %s", tailLine(text))
	lib := filepath.Join(second, "lib.txt")
	inBackground := shell("sleep 1; echo bg >bg.txt; sed -i 's/^var v0400.*/var v0400 = -1/' src/big.go")
	inBackground.Input["run_in_background"] = true

	prompts := []struct {
		name   string
		script func(m *conv)
		late   string   // written after the client has ended
		leaves []string // directories that undo does not restore but names in its output
	}{
		{"alone", func(m *conv) {
			m.do(b.read("src/mid.go"))
			m.do(b.edit("src/mid.go", "line 7 of this", "line seven"))
			m.do(shell("sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go; mkdir new; echo 1 >new/a.txt; chmod 750 new/a.txt; rm src/huge.go"))
		}, "", nil},
		{"agent", func(m *conv) {
			sub := b.conv("agent-sub")
			sub.do(shell("sleep 1; echo sub >sub.txt; mv new/a.txt new/b.txt"))
			sub.say("sub done")
			sub.ready()
			m.do(shell("echo before >before.txt"))
			m.do(agent("agent-sub"))
			m.say("it runs")
			m.do(shell("echo after >after.txt; rm before.txt"))
		}, "", nil},
		{"background", func(m *conv) {
			m.do(inBackground)
			m.say("it runs")
			m.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "written.txt"), "content": "written\n"}})
		}, "", nil},
		{"worktree", func(m *conv) {
			m.do(shell("echo main >main.txt"))
			m.do(call{Name: "EnterWorktree", Input: map[string]any{"name": "wt"}})
			m.do(shell("echo inside >inside.txt; git add inside.txt; git -c user.name=t -c user.email=t@example.com commit -qm inside; echo more >more.txt"))
			m.do(call{Name: "ExitWorktree", Input: map[string]any{"action": "keep"}})
			m.do(shell("echo again >again.txt"))
		}, "", []string{".claude/worktrees/wt"}},
		{"added", func(m *conv) {
			m.do(shell("echo 2 >" + filepath.Join(second, "count.txt") + "; echo both >notes.txt"))
			m.do(call{Name: "Read", Input: map[string]any{"file_path": lib}})
			m.do(call{Name: "Edit", Input: map[string]any{"file_path": lib, "old_string": "150\n", "new_string": "one hundred and fifty\n"}})
			m.do(shell("cd " + second + " && git mv count.txt counted.txt"))
		}, "", nil},
		{"detached", func(m *conv) {
			m.do(shell("setsid sh -c 'sleep 4; sed -i s,main,late, main.txt; echo late >late.txt' >/dev/null 2>&1 </dev/null & echo now >now.txt"))
		}, "late.txt", nil},
	}
	roots := []string{b.project, second}
	look := func() (all []map[string]string) {
		for _, root := range roots {
			all = append(all, snapshot(root))
		}
		return all
	}
	differ := func(a, b []map[string]string, except []string) (names []string) {
		for i := range a {
			for _, name := range differences(a[i], b[i]) {
				left := false
				for _, dir := range except {
					left = left || i == 0 && strings.HasPrefix(strings.TrimPrefix(name, "+"), dir+"/")
				}
				if !left {
					names = append(names, filepath.Base(roots[i])+": "+name)
				}
			}
		}
		return names
	}
	session := ""
	for _, p := range prompts {
		m := b.conv("six-" + p.name)
		p.script(m)
		m.say("finished")
		before := look()
		args := []string{"--add-dir", second}
		if session != "" {
			args = append(args, "--resume", session)
		}
		r := b.start(append([]string{b.claude}, claudeArgs(m.ready(), args)...))
		ended(c, r, p.name)
		if session == "" {
			session = r.session()
		}
		c.that(r.session() == session, "%s: it is the same session", p.name)
		for range 1000 {
			if _, err := os.Stat(filepath.Join(b.project, p.late)); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		after := look()
		c.that(len(differ(before, after, nil)) > 1, "%s: it changed something: %v", p.name, differ(before, after, nil))

		text, err := b.tool("undo", "--prompt", "last", "--yes")
		c.that(err == nil || len(p.leaves) > 0, "%s: undo: %s", p.name, text)
		for _, dir := range p.leaves {
			c.that(strings.Contains(text, "conflict "+dir+": "), "%s: undo names what it leaves: %s", p.name, text)
		}
		took := []string{b.project}
		for line := range strings.Lines(text) {
			if _, command, ok := strings.Cut(strings.TrimSpace(line), ": cachebro undo --dir "+second); ok {
				took = append(took, second)
				there, err := b.tool(append(append([]string{"undo", "--dir", second}, strings.Fields(command)...), "--yes")...)
				c.that(err == nil, "%s: undo in the second project: %s", p.name, there)
			}
		}
		d := differ(before, look(), p.leaves)
		c.that(len(d) == 0, "%s: every project is as before the prompt %v", p.name, d)
		for _, root := range took {
			text, err := b.toolIn(root, "redo", "--yes")
			c.that(err == nil, "%s: redo: %s", p.name, text)
		}
		d = differ(after, look(), nil)
		c.that(len(d) == 0, "%s: redo gives all of it back %v", p.name, d)
	}
	text, err = b.tool("log")
	c.that(err == nil && !strings.Contains(text, "<task"), "the log shows no markup: %s", head(text))
	text, err = b.toolIn(b.dir, "down", "--yes", b.project)
	c.that(err == nil, "down: %s", tailLine(text))
}
