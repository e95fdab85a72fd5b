package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"

	"cachebro/store/readers"
)

// The functions below add events of kinds that no recording contains. These are more prompts,
// rewinds to an earlier prompt, resumed sessions, results that the client clears silently (only the
// reported usage falls), files shown by a shell command, and files that are not in the project.
// Half of the changes are made by a process that does not belong to the session.

// A client clears all results but the exemptResults newest, and only if they have at least
// clearsAtLeast tokens.
const clearsAtLeast, exemptResults = 10_000, 3

// vary returns the steps with such events in between, and the files that are not in the project.
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
		st.others = r.IntN(2) == 0
		if st.op == "read" && r.IntN(4) == 0 {
			st.op = "shell"
		}
		out = append(out, st)
	}
	return out, outside
}

// checkpoint is the state of a conversation before a prompt.
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
	out, err := pl.hook(0, "UserPromptSubmit", fields{"prompt": "replay"})
	pl.notified(0, out.Specific.Context)
	return err
}

// rewind returns the conversation to an earlier prompt, and continues with another prompt. back is
// the number of prompts before the last one.
func (pl *player) rewind(back int) error {
	if len(pl.points) == 0 {
		return nil
	}
	i := max(0, len(pl.points)-1-back)
	p, t := pl.points[i], pl.transcript(0)
	t.last, t.tokens = p.entry, p.tokens
	pl.agents[0].said = pl.agents[0].said[:p.said]
	pl.points = pl.points[:i]
	if err := pl.lost(0); err != nil {
		return err
	}
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

// silence clears old results of the main loop, if they have enough tokens.
func (pl *player) silence() error {
	c := pl.agents[0]
	if c == nil || pl.o.client == codex { // Codex clears no results
		return nil
	}
	if n := c.cleared(exemptResults, clearsAtLeast); n > 0 {
		pl.transcript(0).tokens -= n
		pl.res.cleared++
		if pl.o.verbose {
			pl.o.progress(fmt.Sprintf("%s cleared   %d tokens before call %d, %d remain", pl.res.name, n, pl.n+1, pl.transcript(0).tokens))
		}
		return pl.lost(0)
	}
	return nil
}

// shell plays a read by a command that shows lines of one file.
func (pl *player) shell(st step) error {
	lines := strings.Split(pl.disk[st.file], "\n")
	a := ask{path: pl.file(st.file), now: lines, first: st.first, last: min(st.last, len(lines))}
	whole := st.first == 1 && a.last == len(lines)
	a.full = strings.TrimRight(strings.Join(lines[a.first-1:a.last], "\n"), " \t\r\n")
	if a.full == "" || pl.o.client != codex && strings.TrimLeft(a.full, " \t\r\n") != a.full {
		return nil // the client trims white space at the beginning, so this text would not arrive unchanged
	}
	shown := strings.Split(a.full, "\n")
	a.last = a.first + len(shown) - 1
	command := "cat " + filepath.Join(pl.p.dir, a.path)
	if !whole {
		command = "sed -n '" + strconv.Itoa(a.first) + "," + strconv.Itoa(st.last) + "p' " + filepath.Join(pl.p.dir, a.path)
	}
	input := fields{"command": command}
	pl.recordCall(st.agent, command)
	if _, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Bash", "tool_use_id": pl.last, "tool_input": input}); err != nil {
		return err
	}
	out, err := pl.bash(st.agent, input, a.full)
	if err != nil {
		return err
	}
	m := pl.agents[st.agent].mind(st.file, pl.given[st.agent])
	a.whole = whole && a.last == len(lines)-1 // the read reaches the end of the file only if the output does
	best, expiring, err := pl.best(st, m, a, func(r readers.Answer) string { return r.Note + "\n" + r.Text })
	if err != nil {
		return err
	}
	kind, final := "full", a.full
	runs := []lineRun{{at: a.first, shown: shown}}
	if out != "" {
		final = out
		kind = "changed"
		if strings.HasPrefix(out, "cachebro: not repeated") {
			kind = "unchanged"
			runs, err = repeated(out)
		} else {
			note, body, _ := strings.Cut(out, "\n")
			runs, err = noted(note, 0, strings.Split(body, "\n"))
		}
	}
	if a.whole {
		runs = append(runs, lineRun{at: len(lines), shown: lines[len(lines)-1:]})
	}
	if pl.o.client == codex && len(final) > codexCut {
		final = final[:codexCut/2] + fmt.Sprintf("…%d bytes truncated…", len(final)-codexCut) + final[len(final)-codexCut/2:]
		if out != "" {
			err = errors.New("an answer longer than the client accepts")
		}
		pl.false(st, err)
		a.full, best, expiring = final, pl.o.tokens(final), pl.o.tokens(final)
	} else {
		pl.delivered(st, m, a, runs, err)
	}
	if pl.o.client == codex {
		pl.recordResult(st.agent, out == "", final)
	}
	pl.score(st, a, kind, pl.o.tokens(final), best, expiring)
	return pl.batch(st.agent, "Bash", input, final)
}

// bash reports a command's output to the hooks and returns the text that replaces it.
func (pl *player) bash(agent int, input fields, stdout string) (string, error) {
	response := fields{"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false}
	if pl.o.client == opencode {
		response = fields{"output": stdout, "metadata": fields{"exit": 0}}
	}
	out, err := pl.hook(agent, "PostToolUse", fields{"tool_name": "Bash", "tool_use_id": pl.last, "tool_input": input, "tool_response": response})
	if out.Decision != "" {
		return out.Reason, err
	}
	if out.Output != "" {
		return out.Output, err
	}
	if err != nil || out.Specific.Updated == nil {
		return "", err
	}
	return out.Specific.Updated.Stdout, nil
}
