package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
)

// What recordings lack is woven into them: further prompts, conversations that are
// taken back to an earlier prompt, sessions that are resumed, results that the client
// clears without a word (only the usage falls), files that a shell command shows, and
// files outside of the project.

// clearsAtLeast is how many tokens a client clears at once; it keeps the newest
// results.
const clearsAtLeast, clearsBut = 10_000, 3

// vary returns the steps with such events between them, and which files are outside.
func vary(steps []step, seed uint64) (out []step, outside map[int]bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	outside = map[int]bool{}
	for _, st := range steps {
		if _, known := outside[st.file]; !known {
			outside[st.file] = r.IntN(7) == 0
		}
		if st.agent == 0 {
			for _, x := range []struct {
				op    string
				oneIn int
			}{{"resume", 60}, {"clear", 12}, {"rewind", 25}, {"prompt", 6}} {
				if r.IntN(x.oneIn) == 0 {
					out = append(out, step{op: x.op, last: r.IntN(3)})
				}
			}
		}
		if st.op == "read" && r.IntN(4) == 0 {
			st.op = "shell"
		}
		out = append(out, st)
	}
	return out, outside
}

// checkpoint is a conversation as it was before a prompt.
type checkpoint struct {
	entry  string
	tokens int
	said   int
}

// prompt begins the next prompt of the main loop.
func (pl *player) prompt() error {
	t := pl.transcript(0)
	if pl.agents[0] == nil {
		pl.agents[0], pl.bills[0] = &conversation{}, &bill{}
	}
	pl.points = append(pl.points, checkpoint{t.last, t.tokens, len(pl.agents[0].said)})
	pl.prompts++
	t.prompt("replay")
	_, err := pl.hook(0, "UserPromptSubmit", fields{"prompt": "replay"})
	return err
}

// rewind takes the conversation back by some prompts and says something else.
func (pl *player) rewind(back int) error {
	if len(pl.points) == 0 {
		return nil
	}
	i := max(0, len(pl.points)-1-back)
	p, t := pl.points[i], pl.transcript(0)
	t.last, t.tokens = p.entry, p.tokens
	pl.agents[0].said = pl.agents[0].said[:p.said]
	pl.points = pl.points[:i]
	return pl.prompt()
}

func (pl *player) resume() error {
	if _, err := pl.hook(0, "SessionEnd", fields{"reason": "other"}); err != nil {
		return err
	}
	out, err := pl.hook(0, "SessionStart", fields{"source": "resume"})
	if err != nil {
		return err
	}
	pl.inject(0, out.Specific.Context)
	return pl.prompt()
}

// silence clears old results of the main loop, if they are many.
func (pl *player) silence() {
	c := pl.agents[0]
	if c == nil {
		return
	}
	if n := c.cleared(clearsBut, clearsAtLeast); n > 0 {
		pl.transcript(0).tokens -= n
		pl.res.cleared++
		if pl.o.verbose {
			pl.o.progress(fmt.Sprintf("%s cleared   %d tokens before call %d, %d are left", pl.res.name, n, pl.n+1, pl.transcript(0).tokens))
		}
	}
}

// shell is a read by a command that shows lines of one file.
func (pl *player) shell(st step) error {
	lines := strings.Split(pl.disk[st.file], "\n")
	a := ask{path: pl.file(st.file), now: lines, first: st.first, last: min(st.last, len(lines))}
	whole := st.first == 1 && a.last == len(lines)
	a.full = strings.TrimRight(strings.Join(lines[a.first-1:a.last], "\n"), " \t\r\n")
	if a.full == "" || strings.TrimLeft(a.full, " \t\r\n") != a.full {
		return nil // the client takes white space off
	}
	shown := strings.Split(a.full, "\n")
	a.last = a.first + len(shown) - 1
	command := "cat " + filepath.Join(pl.p.dir, a.path)
	if !whole {
		command = "sed -n '" + strconv.Itoa(a.first) + "," + strconv.Itoa(st.last) + "p' " + filepath.Join(pl.p.dir, a.path)
	}
	input := fields{"command": command}
	if _, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Bash", "tool_use_id": pl.last, "tool_input": input}); err != nil {
		return err
	}
	out, err := pl.bash(st.agent, input, a.full)
	if err != nil {
		return err
	}
	m := pl.agents[st.agent].mind(st.file, pl.given[st.agent])
	kind, final := "full", a.full
	runs := []lineRun{{at: a.first, shown: shown}}
	if out != "" {
		final = out
		if kind = "changed"; strings.HasPrefix(out, "cachebro: not repeated") {
			kind = "unchanged"
			runs, err = repeated(out)
		} else {
			note, body, _ := strings.Cut(out, "\n")
			runs, err = noted(note, 0, strings.Split(body, "\n"))
		}
	}
	pl.delivered(st, m, a, runs, err)
	n := pl.o.tokens(final)
	pl.score(st, a, kind, n, n, n)
	return pl.batch(st.agent, "Bash", input, final)
}

// bash tells of a command's output and returns what takes its place.
func (pl *player) bash(agent int, input fields, stdout string) (string, error) {
	out, err := pl.hook(agent, "PostToolUse", fields{"tool_name": "Bash", "tool_use_id": pl.last, "tool_input": input, "tool_response": fields{
		"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false}})
	if err != nil || out.Specific.Updated == nil {
		return "", err
	}
	return out.Specific.Updated.Stdout, nil
}
