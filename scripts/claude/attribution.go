package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// attributed configures the client with "cachebro up" and starts it directly in the unmounted
// project. It checks the authors that the log gives for changes by Edit, Write and Bash, in
// parallel calls, in the background, and in a sub-agent. Then it undoes the last prompt.
func attributed(b *bench, c *checks) {
	settings := filepath.Join(b.dir, "home", ".claude", "settings.json")
	before, _ := os.ReadFile(settings)
	out, err := b.tool("up", "--yes", "--client", "claude", "--stop-line=always", b.project)
	c.that(err == nil, "up: %s", tailLine(out))
	out, err = b.umount()
	c.that(err == nil, "unmounted before the client starts %s", tailLine(out))

	m, n, sub := b.conv("prompt-one"), b.conv("prompt-two"), b.conv("two-sub")
	m.do(shell("echo first > first.txt"))
	m.say("one")
	sub.do(shell("echo agent > src/agent.txt"))
	sub.say("done")
	sub.ready()

	type expected struct {
		step, call int
		paths      []string
	}
	want := map[string]expected{}
	n.do(b.read("src/mid.go"))
	want["Edit"] = expected{n.do(b.edit("src/mid.go", "line 7 of this", "line seven")), 0, []string{"src/mid.go"}}
	want["sed"] = expected{n.do(shell(`sed -i 's/^var v0500.*/var v0500 = -1/' src/big.go`)), 0, []string{"src/big.go"}}
	want["rm"] = expected{n.do(shell("rm src/huge.go")), 0, []string{"src/huge.go"}}
	want["mv"] = expected{n.do(shell("mv first.txt src/second.txt")), 0, []string{"first.txt", "src/second.txt"}}
	want["Write"] = expected{n.do(call{Name: "Write", Input: map[string]any{"file_path": filepath.Join(b.project, "new.txt"), "content": "new\n"}}), 0, []string{"new.txt"}}
	both := n.do(shell("sleep 0.2; echo 1 > p1.txt; sleep 0.3"), shell("sleep 0.3; echo 2 > p2.txt"))
	want["parallel 1"] = expected{both, 0, []string{"p1.txt"}}
	want["parallel 2"] = expected{both, 1, []string{"p2.txt"}}
	background := shell("sleep 1; echo later > later.txt")
	background.Input["run_in_background"] = true
	want["background"] = expected{n.do(background), 0, []string{"later.txt"}}
	n.do(agent("two-sub"))
	want["after"] = expected{n.do(shell("sleep 1.5; echo end > end.txt")), 0, []string{"end.txt"}}
	n.say("two")

	var state map[string]string
	n.steps[0].act = func() { state = snapshot(b.project) }
	b.prompts = []string{m.ready(), n.ready()}
	r := b.start(append([]string{b.claude}, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-hook-events", "--permission-mode", "bypassPermissions"))
	b.prompts = nil
	ended(c, r, "the client alone, configured by up")
	c.that(strings.Contains(r.stdout, "mounted: every change is kept from now on"), "the session's start mounted the project and said so")
	c.that(strings.Contains(r.stdout, "files changed, undo: cachebro undo --prompt "), "the Stop line counts the changes: %s", head(after(r.stdout, "files changed")))

	vs, err := b.versions(r.session())
	c.that(err == nil && len(vs) > 0, "log --session --json: %d versions %v", len(vs), err)
	ids := map[int][]string{}
	for _, e := range b.api.of("prompt-two") {
		ids[e.step] = e.ids
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	sort.Strings(names)
	prompts := map[string]bool{}
	for _, name := range names {
		w := want[name]
		if len(ids[w.step]) <= w.call {
			c.that(false, "%s was never asked for", name)
			continue
		}
		id := ids[w.step][w.call]
		for _, p := range w.paths {
			v, ok := vs.of(p)
			c.that(ok && v.Actor.ToolCall == id && !v.Actor.Uncertain && v.Actor.Prompt != "", "%s: %s is joined to its tool call (%s, prompt %s, uncertain %v)", name, p, v.Actor.ToolCall, v.Actor.Prompt, v.Actor.Uncertain)
			prompts[v.Actor.Prompt] = true
		}
	}
	v, ok := vs.of("src/agent.txt")
	c.that(ok && v.Actor.Agent != "" && v.Actor.ToolCall != "", "the sub-agent's file names the agent: %s %s", v.Actor.Agent, v.Actor.ToolCall)
	c.that(len(prompts) == 1, "all of the second prompt's changes carry one prompt id: %d", len(prompts))
	text, err := b.tool("log", "--session", r.session())
	c.that(err == nil && strings.Count(text, "prompt ") >= 2 && strings.Contains(text, "  rm src/huge.go") && strings.Contains(text, "  Edit "), "log --session prints them under prompt, command and tool: %s", head(text))

	out, err = b.tool("undo", "--prompt", "last", "--yes")
	c.that(err == nil, "undo --prompt last: %s", tailLine(out))
	diff := differences(state, snapshot(b.project))
	c.that(len(diff) == 0, "the tree is as before the last prompt %v", diff)
	out, err = b.tool("redo", "--yes")
	_, serr := os.Stat(filepath.Join(b.project, "src/huge.go"))
	c.that(err == nil && errors.Is(serr, fs.ErrNotExist), "redo brings it back: %s", tailLine(out))

	out, err = b.toolIn(b.dir, "down", "--yes", b.project)
	c.that(err == nil, "down: %s", tailLine(out))
	now, _ := os.ReadFile(settings)
	c.that(string(before) == string(now), "the client's settings are as before, to the byte")
}

type version struct {
	Path  string `json:"path"`
	From  string `json:"from"`
	Op    string `json:"op"`
	Actor struct {
		Agent     string `json:"agent"`
		Prompt    string `json:"prompt"`
		ToolCall  string `json:"tool_call"`
		Uncertain bool   `json:"uncertain"`
		Late      bool   `json:"late"`
	} `json:"actor"`
}

type versions []version

// of returns the newest version of a path.
func (vs versions) of(path string) (version, bool) {
	for _, v := range vs {
		if v.Path == path {
			return v, true
		}
	}
	return version{}, false
}

func (b *bench) versions(session string) (versions, error) {
	out, err := b.tool("log", "--session", session, "--json")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, head(out))
	}
	var vs versions
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var v version
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// snapshot maps every file outside of .git to its content and mode.
func snapshot(dir string) map[string]string {
	m := map[string]string{}
	time.Sleep(10 * time.Millisecond)
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			m[p] = err.Error()
			return nil
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		text, rerr := os.ReadFile(p)
		fi, ierr := d.Info()
		if err := errors.Join(rerr, ierr); err != nil {
			m[p] = err.Error()
			return nil
		}
		m[strings.TrimPrefix(p, dir+"/")] = fi.Mode().String() + string(text)
		return nil
	})
	return m
}

func differences(a, b map[string]string) (names []string) {
	for name, text := range a {
		if b[name] != text {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, "+"+name)
		}
	}
	sort.Strings(names)
	return names
}

func tailLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return head(lines[len(lines)-1])
}
