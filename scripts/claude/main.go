// Command claude drives the real Claude Code against a scripted Messages API on loopback, inside a
// project mounted by cachebro. It checks in the bodies of the requests what reaches the model.
// run.sh installs the client and builds cachebro. The exit status is 1 if a check fails.
//
// A scenario consists of a conversation, which is the list of the scripted model's answers (step in
// api.go), and of checks of what its tool calls delivered (evidence.go). The checks do not depend
// on how cachebro works. They depend only on what doc/formats.md promises.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "destroy" {
		if err := destroy(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runAll())
}

func runAll() int {
	cachebro := flag.String("cachebro", "", "the cachebro binary, absolute")
	claude := flag.String("claude", "", "the claude binary, absolute")
	keep := flag.String("dir", "", "work here and keep everything (default: a temporary directory, removed)")
	only := flag.String("only", "", "run only the scenarios whose name contains this text")
	bare := flag.Bool("bare", false, "run the scenarios without cachebro: check nothing, but count the bytes of the results")
	flag.Parse()
	dir := *keep
	if dir == "" {
		d, err := os.MkdirTemp("", "cachebro-claude-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(d)
		dir = d
	}
	a, err := startAPI(filepath.Join(dir, "requests"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer a.Close()
	b := &bench{api: a, dir: dir, claude: *claude, cachebro: *cachebro, bare: *bare}
	c := &checks{}
	for _, s := range scenarios {
		if !strings.Contains(s.name, *only) {
			continue
		}
		fmt.Printf("\n%s: %s\n", s.name, s.about)
		for try := 1; ; try++ {
			part, err := b.scene(s)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			if *bare {
				break
			}
			// On an overloaded machine the daemon may not answer within 200 ms. The hooks then do
			// nothing for half a minute, as designed, and nothing can be checked.
			if part.failed > 0 && try < 3 && part.late {
				fmt.Println("a hook's time ran out on this machine; once more")
				continue
			}
			part.print()
			c.total, c.failed = c.total+part.total, c.failed+part.failed
			break
		}
	}
	fmt.Printf("\n%d bytes of results\n", b.results)
	if !*bare {
		fmt.Printf("%d checks, %d failed\n", c.total, c.failed)
	}
	if c.failed > 0 {
		return 1
	}
	return 0
}

// scene runs a scenario in a new project.
func (b *bench) scene(s scenario) (*checks, error) {
	part := &checks{}
	if err := b.newProject(); err != nil {
		return nil, err
	}
	s.run(b, part)
	b.results += b.api.results()
	marks, err := filepath.Glob(filepath.Join(b.dir, "run", "cachebro", "*.hooks-off"))
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		part.late = true
		os.Remove(m)
	}
	if !s.unmounted {
		out, err := b.umount()
		part.that(err == nil, "umount afterwards %s", head(out))
	}
	b.endDaemon()
	b.api.forget()
	// Remove the history, because the next scenario's project has the same path.
	return part, errors.Join(os.RemoveAll(b.project), os.RemoveAll(filepath.Join(b.dir, "state")))
}

type scenario struct {
	name, about string
	unmounted   bool // the scenario leaves no mount behind
	run         func(*bench, *checks)
}

var scenarios = []scenario{
	{"continued", "what the client does by itself belongs to the prompt that caused it", true, continued},
	{"reads", "built-in Read: span, stub, full again, Edit; the same by cat; a sub-agent", true, reads},
	{"compact", "after a compaction nothing counts as shown", false, compacted},
	{"resume", "--resume, --continue and --fork-session are new contexts", false, resumed},
	{"doubts", "results that were cut or replaced were not shown", false, doubts},
	{"stopped", "a batch that a person stops, /clear, and a daemon that hangs", false, stopped},
	{"attribution", "up, a session that mounts, who did what, undo of a prompt, down", true, attributed},
	{"plugin", "the plugin alone: a stub, and /cachebro:undo", false, plugged},
	{"rewriting", "a version that shows its own text whatever hooks send", false, rewriting},
	{"parts", "commands that show several files: each is shortened in its place", false, parts},
	{"outputs", "outputs of commands in fewer words, and what was folded looked up", false, outputs},
	{"story", "what log, diff --stat and undo say of three prompts, a sub-agent and builds", false, storied},
	{"comments", "a comment on a line in the page reaches the next prompt once", false, commented},
	{"beliefs", "what others changed, took back or lost reaches the next prompt once", false, believed},
	{"worktrees", "worktrees of a session, a sub-agent and a tool are forks", true, worktrees},
	{"six", "a session of six prompts, each undone and redone in every project", true, six},
	{"projects", "a session works in several projects: --add-dir, a command, EnterWorktree, serve", true, projects},
	{"served", "the MCP server follows the session: --add-dir, git worktrees, forks", true, served},
	{"back", "numbers, redo, undo --git, and a session that no hook reported", true, back},
	{"mixed", "queued prompts, hooks that go on, nested agents, forked and cleared sessions", true, mixed},
	{"sandbox", "cachebro's own commands in the client's sandbox", true, sandboxed},
	{"hold", "init --hold: a write over another's change waits once, with that change", false, held},
	{"container", "a session goes on in a new container, from what the old one sent to a bucket", false, moved},
	{"net", "without /dev/fuse, root and capabilities: what is destroyed anywhere comes back", true, netted},
	{"killed", "the same while cachebro's processes are killed at random moments", true, netKilled},
	{"edits", "2,000 random edits by the client's Edit and by edit_file: the same bytes", true, editsAlike},
	{"odd", "links, line ends, files moved over others, notebooks: a changed file is never answered with a stub", false, odd},
	{"parallel", "parallel calls, failing calls, a write that keeps the mtime", false, parallel},
}

// conv is a conversation that is being written. Its answers are numbered.
type conv struct {
	b     *bench
	name  string
	steps []step
}

func (b *bench) conv(name string) *conv { return &conv{b: b, name: name} }

// do adds one answer with tool calls and returns the number of the answer. The results of the calls
// are found by this number.
func (v *conv) do(calls ...call) int {
	v.steps = append(v.steps, step{calls: calls})
	return len(v.steps) - 1
}

func (v *conv) say(text string) int {
	v.steps = append(v.steps, step{text: text})
	return len(v.steps) - 1
}

func (v *conv) got(step int) delivered { return v.b.api.result(v.name, step, 0) }

// ready gives the script to the API and returns the prompt that starts it.
func (v *conv) ready() string {
	v.b.api.script(v.name, v.steps...)
	return "SCRIPT:" + v.name + " please"
}

func (b *bench) read(path string, kv ...any) call {
	in := map[string]any{"file_path": filepath.Join(b.project, path)}
	for i := 0; i+1 < len(kv); i += 2 {
		in[kv[i].(string)] = kv[i+1]
	}
	return call{Name: "Read", Input: in}
}

func shell(command string) call {
	return call{Name: "Bash", Input: map[string]any{"command": command, "description": "scripted"}}
}

func (b *bench) edit(path, old, new string) call {
	return call{Name: "Edit", Input: map[string]any{"file_path": filepath.Join(b.project, path), "old_string": old, "new_string": new}}
}

func agent(script string) call {
	return call{Name: "Agent", Input: map[string]any{"description": "scripted", "prompt": "SCRIPT:" + script + " please", "subagent_type": "general-purpose"}}
}
