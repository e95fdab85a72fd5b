package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var lostRuns = flag.Int("lost-runs", 2, "random orders of acts in TestLostUpdatesAtRandom")

// client is a process with a session. It reports its tool calls to cachebro as Claude Code does,
// and writes files itself with its own tools.
type client struct {
	p  *project
	w  *worker
	id string
	// The transcript is a chain of entries, each the child of the previous one.
	transcript string
	entries    int
	calls      int
	prompts    int
	updated    string // the text that replaced the last tool call's result; "" if the result was kept
}

// said appends an entry to the transcript.
func (c *client) said(kind string, message any) {
	c.p.t.Helper()
	e := map[string]any{"uuid": fmt.Sprint("e", c.entries+1), "parentUuid": nil, "type": kind, "isSidechain": false, "message": message}
	if c.entries > 0 {
		e["parentUuid"] = fmt.Sprint("e", c.entries)
	}
	c.entries++
	b, err := json.Marshal(e)
	if err != nil {
		c.p.t.Fatal(err)
	}
	f, err := os.OpenFile(c.transcript, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.p.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		c.p.t.Fatal(err)
	}
}

// call begins a tool call, which the model has requested.
func (c *client) call(tool string, input map[string]any) map[string]any {
	c.p.t.Helper()
	c.calls++
	id := fmt.Sprintf("%s-%d", c.id, c.calls)
	c.said("assistant", map[string]any{"id": "m" + id, "content": []any{map[string]any{"type": "tool_use", "id": id, "name": tool, "input": input}}})
	call := map[string]any{"tool_name": tool, "tool_use_id": id, "tool_input": input}
	c.event("PreToolUse", call)
	return call
}

// ended ends a tool call with the text that the model receives.
func (c *client) ended(call map[string]any, response any, text string) {
	c.p.t.Helper()
	done, given := maps.Clone(call), maps.Clone(call)
	done["tool_response"], given["tool_response"] = response, text
	c.event("PostToolUse", done)
	c.event("PostToolBatch", map[string]any{"tool_calls": []any{given}})
	c.said("user", map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": call["tool_use_id"], "content": text}}})
}

func (p *project) client(id string) *client {
	return &client{p: p, w: startWorker(p.t, append(p.env, "CACHEBRO_HOOK_WAIT=30s", "CLAUDE_CODE_SESSION_ID="+id)...), id: id, transcript: filepath.Join(p.base, id+".jsonl")}
}

func (c *client) run(command, input string) string {
	c.p.t.Helper()
	said := c.w.do("run", strconv.Quote("cd "+c.p.dir+" && "+command), input)
	out, err := strconv.Unquote(said)
	if err != nil {
		c.p.t.Fatalf("%s: %s: %s", c.id, command, said)
	}
	return out
}

// event reports an event, and returns the text that the model gets.
func (c *client) event(name string, more map[string]any) string {
	c.p.t.Helper()
	m := map[string]any{"session_id": c.id, "prompt_id": fmt.Sprint(c.id, "-P", c.prompts), "transcript_path": c.transcript, "cwd": c.p.dir, "hook_event_name": name}
	maps.Copy(m, more)
	b, err := json.Marshal(m)
	if err != nil {
		c.p.t.Fatal(err)
	}
	out := c.run(binary+" hook", string(b))
	var a struct {
		Out struct {
			Context string          `json:"additionalContext"`
			Updated json.RawMessage `json:"updatedToolOutput"`
		} `json:"hookSpecificOutput"`
	}
	if name == "PostToolUse" {
		defer func() { c.updated = string(a.Out.Updated) }()
	}
	if out == "" {
		return ""
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		c.p.t.Fatalf("%s: %v: %s", name, err, out)
	}
	return a.Out.Context
}

func (c *client) prompt() string {
	c.p.t.Helper()
	c.prompts++
	told := c.event("UserPromptSubmit", map[string]any{"prompt": "go on"})
	c.said("user", map[string]any{"role": "user", "content": "go on"})
	return told
}

// bash runs a command as a tool call; the model receives its output.
func (c *client) bash(command string) string {
	c.p.t.Helper()
	call := c.call("Bash", map[string]any{"command": command})
	out := c.run(command, "")
	c.ended(call, map[string]any{"stdout": out, "stderr": "", "interrupted": false}, out)
	return out
}

// write writes a whole file with the client's own tool.
func (c *client) write(name, text string) {
	c.p.t.Helper()
	call := c.call("Write", map[string]any{"file_path": c.p.path(name), "content": text})
	if said := c.w.do("write", c.p.path(name), strconv.Quote(text), "quoted"); said != "ok" {
		c.p.t.Fatal(said)
	}
	c.ended(call, map[string]any{"type": "update", "filePath": c.p.path(name), "content": text}, "The file has been updated.")
}

// lostIn returns how many lost updates the log marks in a file.
func (p *project) lostIn(name string) int {
	p.t.Helper()
	n := 0
	for line := range strings.Lines(p.cb("log", "--versions", "--lost", p.dir)) {
		if strings.Contains(line, "lost update: ") && strings.Contains(line, " "+name+"  ") {
			n++
		}
	}
	return n
}

// If a session replaces a file on the basis of a content that another session has changed since, an
// update is lost. Both sessions are told once, at their next prompts. The log marks the lost
// update, and one command merges the two changes.
func TestLostUpdate(t *testing.T) {
	const text = "package a\n\nfunc one() {}\n\nfunc two() {}\n\nfunc three() {}\n"
	p := newProject(t, map[string]string{"a.go": text, "b.go": text, "c.go": text})
	p.mount()
	a, b := p.client("session-a"), p.client("session-b")
	for _, c := range []*client{a, b} {
		c.event("SessionStart", map[string]any{"source": "startup"})
		c.prompt()
		for _, name := range []string{"a.go", "b.go", "c.go"} {
			c.bash("cat " + name)
		}
	}
	b.bash(`sed -i 's/^func one.*/func one() { work() }/' a.go`)
	// Session a starts from the content that it was shown, and makes its own change.
	a.bash("printf 'package a\\n\\nfunc one() {}\\n\\nfunc two() {}\\n\\nfunc three() { rest() }\\n' > a.go")
	// An edit of the present content loses nothing, even if it removes lines.
	b.bash(`sed -i 's/^func one.*/func one() { drop() }/' b.go`)
	a.bash(`sed -i '/drop/d' b.go`)
	// A session that was shown the present content loses nothing either.
	b.bash(`sed -i 's/^func one.*/func one() { drop() }/' c.go`)
	a.bash("cat c.go")
	a.bash(`printf 'package a\n' > c.go`)
	if n := p.lostIn("a.go"); n != 1 {
		t.Errorf("a.go: %d lost updates in\n%s", n, p.cb("log", "--versions", p.dir))
	}
	if n := p.lostIn("b.go") + p.lostIn("c.go"); n != 0 {
		t.Errorf("b.go, c.go: %d lost updates in\n%s", n, p.cb("log", "--versions", "--lost", p.dir))
	}
	story := p.cb("log", p.dir)
	if n := strings.Count(story, "lost update: missing 1 line of "); n != 1 {
		t.Errorf("marked %d times in\n%s", n, story)
	}
	hisWord, herWord := a.prompt(), b.prompt()
	if !strings.Contains(hisWord, "a.go: your command at ") || !strings.Contains(hisWord, "overwrote 1 line of sed") || strings.Contains(hisWord, "three") || !strings.Contains(hisWord, `"func one() { work() }"`) {
		t.Errorf("the session that overwrote it gets\n%s", hisWord)
	}
	if !strings.Contains(herWord, "a.go: ") || !strings.Contains(herWord, " overwrote 1 line of yours at ") {
		t.Errorf("the session whose line it was gets\n%s", herWord)
	}
	for _, c := range []*client{a, b} {
		if said := c.prompt(); said != "" {
			t.Errorf("%s is informed again:\n%s", c.id, said)
		}
	}
	_, number, _ := strings.Cut(hisWord, "undo --merge ")
	number = number[:strings.IndexFunc(number+" ", func(r rune) bool { return r < '0' || r > '9' })]
	p.cb("undo", "--merge", number, "--yes", "--dir", p.dir)
	if got := p.sh("cat a.go"); got != "package a\n\nfunc one() { work() }\n\nfunc two() {}\n\nfunc three() { rest() }\n" {
		t.Errorf("joined:\n%s", got)
	}
	p.cb("redo", "--yes", "--dir", p.dir)
	if got := p.sh("cat a.go"); !strings.Contains(got, "func one() {}") {
		t.Errorf("and taken back:\n%s", got)
	}
}

// A person's undo is reported once to the session whose changes it reversed, at the session's
// next prompt. Nothing is reported if nothing changed. The session's own changes are never
// reported.
func TestPromptTellsWhatThePersonTookBack(t *testing.T) {
	p := newProject(t, map[string]string{"a.go": "one\ntwo\nthree\n", "b.go": "one\n", "c.go": "one\n"})
	p.mount()
	c := p.client("session-c")
	c.event("SessionStart", map[string]any{"source": "startup"})
	c.prompt()
	c.bash("cat a.go")
	c.bash("cat b.go")
	c.bash("cat c.go")
	if said := c.prompt(); said != "" {
		t.Errorf("nothing changed: %s", said)
	}
	c.write("a.go", "one\nTWO\nthree\n")
	c.bash("sed -i s/one/1/ b.go c.go") // and c.go is not read again
	if said := c.prompt(); said != "" {
		t.Errorf("its own changes: %s", said)
	}
	c.bash("cat b.go")
	p.cb("undo", "--session", "session-c", "--yes", "--dir", p.dir)
	said := c.prompt()
	for _, want := range []string{"a.go: +1 -1 at ", "by undo of ", "-TWO", "+two", "b.go: +1 -1 at ", "c.go: reverted to the text before your change, at "} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if said := c.prompt(); said != "" {
		t.Errorf("told again: %s", said)
	}
}

// The daemon ends while a person thinks. The texts that a session was shown are still known when
// the daemon is back, and changes made since then are reported once.
func TestBeliefsOutliveTheDaemon(t *testing.T) {
	text := strings.Repeat("a line that is long enough for a stub to be shorter\n", 20)
	p := newProject(t, map[string]string{"a.go": text, "b.go": text})
	p.mount()
	c := p.client("session-d")
	c.event("SessionStart", map[string]any{"source": "startup"})
	c.prompt()
	c.bash("cat a.go")
	c.bash("echo more >> b.go")
	c.bash("cat b.go")
	ends := func() {
		t.Helper()
		pid := p.process("daemon")
		_ = syscall.Kill(pid, syscall.SIGTERM)
		eventually(t, 30*time.Second, "the daemon ends", func() bool { return find(p, "daemon") != pid })
	}
	ends()
	p.cb("undo", "--session", "session-d", "--yes", "--dir", p.dir)
	ends()
	if said := c.prompt(); strings.Count(said, "b.go: ") != 1 || !strings.Contains(said, "by undo of ") || strings.Contains(said, "a.go") {
		t.Errorf("of what was taken back: %q", said)
	}
	ends()
	if said := c.prompt(); said != "" {
		t.Errorf("told again: %s", said)
	}
	if c.bash("cat a.go"); !strings.Contains(c.updated, "not repeated") {
		t.Errorf("a second read is given %q", c.updated)
	}
	ends()
	c.event("PreCompact", map[string]any{"trigger": "auto"})
	ends()
	if c.bash("cat a.go"); c.updated != "" {
		t.Errorf("after a compaction it is given %q", c.updated)
	}
}

// Two sessions and a person change three files in random order. The log marks what a model of
// their knowledge calls lost, and nothing else. After the person has undone a session's change,
// the session's next prompt says so, once. No prompt mentions a file that only its own session
// changed, and a prompt describes the file as it is now. The lines of a file are numbered and
// sorted, so that each set of lines is exactly one content.
func TestLostUpdatesAtRandom(t *testing.T) {
	p := newProject(t, map[string]string{"README": "x\n"})
	p.mount()
	line, runs := 0, *lostRuns
	for run := range runs {
		r := rand.New(rand.NewSource(int64(run)))
		type lines map[int]bool
		text := func(s lines) string {
			var b strings.Builder
			for _, l := range slices.Sorted(maps.Keys(s)) {
				fmt.Fprintf(&b, "the line %06d\n", l)
			}
			return b.String()
		}
		clients := []*client{p.client(fmt.Sprintf("r%d-a", run)), p.client(fmt.Sprintf("r%d-b", run))}
		files, want := map[string]lines{}, map[string]int{}
		type belief struct {
			c    *client
			name string
		}
		beliefs, others, mine := map[belief]lines{}, map[belief]lines{}, map[belief]lines{}
		shown := map[belief]lines{} // the text that a session saw last
		// must and may hold the files that a session's next prompt must or may mention, because
		// others changed them. since holds those of these files that the session itself changed
		// later.
		must, may, since := map[belief]bool{}, map[belief]bool{}, map[belief]bool{}
		type past struct {
			by *client
			is lines // lines before
		}
		history := map[string][]past{}
		// set changes a file's lines. others holds the lines that others added (true) or removed
		// (false) after a session learned the content.
		set := func(by *client, name string, is lines) {
			history[name] = append(history[name], past{by, files[name]})
			for k := range beliefs {
				if k.name != name {
					continue
				}
				must[k], may[k], since[k] = false, may[k] || k.c != by, k.c == by
				for l := range is {
					if !files[name][l] && k.c == by {
						mine[k][l] = true
					} else if !files[name][l] && beliefs[k][l] {
						delete(others[k], l)
					} else if !files[name][l] && !mine[k][l] {
						others[k][l] = true
					}
				}
				for l := range files[name] {
					if !is[l] && k.c != by && beliefs[k][l] {
						others[k][l] = false
					} else if !is[l] && !beliefs[k][l] {
						delete(others[k], l)
					}
				}
			}
			files[name] = is
		}
		knows := func(c *client, name string) {
			k := belief{c, name}
			beliefs[k], others[k], mine[k] = maps.Clone(files[name]), lines{}, lines{}
		}
		sees := func(c *client, name string) {
			knows(c, name)
			k := belief{c, name}
			shown[k], must[k], may[k] = files[name], false, false
		}
		var done []string
		prompt := func(c *client) {
			said := c.prompt()
			cut := strings.Contains(said, "more: cachebro log")
			for name := range files {
				k := belief{c, name}
				_, item, told := strings.Cut(said, "\n- "+name+": ")
				for strings.Contains(strings.SplitN(item, "\n", 2)[0], " overwrote ") {
					_, item, told = strings.Cut(item, "\n- "+name+": ")
				}
				item, more, _ := strings.Cut(item, "\n- ")
				switch {
				case strings.Contains(more, name+": +"), strings.Contains(more, name+": as "):
					t.Errorf("%s is informed twice", name)
				case must[k] && !cut && !strings.Contains(item, " by undo of "):
					t.Errorf("%s was taken back", name)
				case told && !may[k]:
					t.Errorf("%s: nobody else changed it", name)
				}
				if told && !since[k] {
					is := maps.Clone(shown[k])
					for l := range strings.Lines(item) {
						var n int
						if _, err := fmt.Sscanf(l, "  +the line %d", &n); err == nil {
							is[n] = true
						} else if _, err := fmt.Sscanf(l, "  -the line %d", &n); err == nil {
							delete(is, n)
						}
					}
					if strings.Contains(item, "\n  ") && !strings.Contains(item, "…") {
						if !maps.Equal(is, files[name]) {
							t.Errorf("%s would be\n%s", name, text(is))
						}
						sees(c, name)
					}
				}
				must[k], may[k] = false, false
			}
			again := c.prompt()
			for i, item := range strings.Split(again, "\n- ") {
				// A session may learn of losses that its own command caused only some seconds
				// later.
				item, _, _ = strings.Cut(item, "\n")
				if i > 0 && (!strings.Contains(item, " overwrote ") || strings.Contains(said, item)) {
					t.Errorf("%s is informed again:\n%s", c.id, again)
				}
			}
			if t.Failed() {
				t.Fatalf("run %d: %s got\n%s\n%s", run, c.id, said, strings.Join(done, "\n"))
			}
		}
		for i := range 3 {
			name := fmt.Sprintf("f%d-%d", run, i)
			files[name] = lines{line + 1: true, line + 2: true, line + 3: true}
			line += 3
			p.write(name, text(files[name]))
		}
		for _, c := range clients {
			c.event("SessionStart", map[string]any{"source": "startup"})
			c.prompt()
		}
		for range 16 {
			name, c := fmt.Sprintf("f%d-%d", run, r.Intn(3)), clients[r.Intn(2)]
			line++
			with := func(s lines) lines { s = maps.Clone(s); s[line] = true; return s }
			is, k := files[name], belief{c, name}
			act := r.Intn(8)
			if act > 0 && act < 3 && beliefs[k] == nil {
				act = 0
			}
			done = append(done, fmt.Sprint(act, " ", c.id, " ", name))
			switch act {
			case 0:
				c.bash("cat " + name)
				sees(c, name)
			case 1, 2:
				is = with(beliefs[k])
				if r.Intn(3) == 0 { // remove a line that the session knows
					delete(is, slices.Min(slices.Collect(maps.Keys(beliefs[k]))))
				}
				for l, in := range others[k] {
					if files[name][l] == in && is[l] != in {
						want[name]++
						break
					}
				}
				set(c, name, is)
				if act == 1 {
					c.write(name, text(is))
					sees(c, name)
				} else {
					c.bash("printf '" + strings.ReplaceAll(text(is), "\n", `\n`) + "' > " + name)
					knows(c, name)
				}
			case 3: // a command that works on the present content
				first := slices.Min(slices.Collect(maps.Keys(is)))
				is = with(is)
				delete(is, first)
				c.bash(fmt.Sprintf("sed -i -e '/the line %06d/d' -e '$a the line %06d' %s", first, line, name))
				set(c, name, is)
			case 4: // the person
				is = with(is)
				if len(is) > 2 && r.Intn(2) == 0 {
					delete(is, slices.Sorted(maps.Keys(is))[1])
				}
				p.write(name, text(is))
				set(nil, name, is)
			case 5:
				p.sh("cat " + name + " > /dev/null")
			case 6: // the person undoes a session's change
				last := len(history[name]) - 1
				if last < 0 || history[name][last].by == nil {
					break
				}
				was, by := history[name][last].is, history[name][last].by
				entries := p.log(name)
				p.cb("undo", fmt.Sprintf("#%d", entries[len(entries)-1].Seq), "--yes", "--dir", p.dir)
				is = was
				set(nil, name, is)
				must[belief{by, name}] = beliefs[belief{by, name}] != nil
				if r.Intn(2) == 0 {
					prompt(by)
				}
			case 7:
				prompt(c)
			}
			if got, err := os.ReadFile(filepath.Join(p.dir, name)); err != nil || string(got) != text(is) {
				t.Fatalf("%s holds %q, want %q (%v)", name, got, text(is), err)
			}
		}
		for _, c := range clients {
			prompt(c)
		}
		for name := range files {
			if n := p.lostIn(name); n != want[name] {
				t.Errorf("run %d, %s: %d lost updates are marked, want %d\n%s\n%s", run, name, n, want[name], strings.Join(done, "\n"), p.cb("log", "--versions", p.path(name)))
			}
		}
		for _, c := range clients {
			c.w.stop()
		}
		if t.Failed() {
			return
		}
	}
}
