package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"cachebro/hooks"
	"cachebro/store/wire"
)

// options are the options of a replay.
type options struct {
	mode     string // mcp, hooks
	client   string // for hooks: the client that is played; "" is Claude Code
	profile  string // for mcp: the set of tools that is offered
	process  bool   // run every hook as a separate process, as a client does
	verbose  bool
	tokens   counter
	binary   string
	version  string
	progress func(string)
	corpus   corpus // outputs of commands; nil if only the length of outputs matters
	seed     uint64 // seed for the events that are inserted into a session; 0 means no such events
}

// player plays one session.
type player struct {
	o      options
	p      *project
	texts  *texts
	oracle *oracle
	res    *result
	// outside and points are used only if the session is varied (see vary.go).
	outside map[int]bool
	points  []checkpoint
	prompts int
	disk    map[int]string
	agents  map[int]*conversation
	n       int // number of tool calls
	last    string
	logs    map[int]*transcript // by agent
	records map[int]*transcript // by agent: the transcript in Codex's form
	bills   map[int]*bill
	mcp     *mcpClient
	schema  int          // tokens of the tools' schema in one context
	given   map[int]int  // tokens of reads by agent
	epochs  map[int]bool // agents whose present context has received the schema
}

const session = "5b0f3a6e-0000-4000-8000-replay000001"

// play replays one trace and returns its counts.
func play(t *trace, o options) (res *result, err error) {
	s, tx := newScript(t), newTexts(t.LineBytes)
	s.fillIn(tx)
	pl := &player{o: o, texts: tx, disk: map[int]string{}, agents: map[int]*conversation{}, bills: map[int]*bill{}, logs: map[int]*transcript{}, records: map[int]*transcript{}, epochs: map[int]bool{}, given: map[int]int{},
		res: &result{name: t.name, unplaced: s.unplaced, lost: map[string]int{}}}
	pl.oracle, err = newOracle(o.tokens)
	if err != nil {
		return nil, err
	}
	if o.seed > 0 {
		s.steps, pl.outside = vary(s.steps, o.seed)
	}
	files := map[string]string{}
	for _, st := range s.steps {
		if _, seen := pl.disk[st.file]; !seen && st.pre != nil {
			pl.disk[st.file] = content(st.pre, tx)
			files[pl.file(st.file)] = pl.disk[st.file]
		} else if !seen && st.op == "write" {
			pl.disk[st.file] = "" // the write creates the file
		}
	}
	pl.p, err = newProject(o.binary, o.version, files)
	if err != nil {
		if pl.p != nil {
			_ = pl.p.close()
		}
		return nil, err
	}
	defer func() {
		if cerr := pl.p.close(); err == nil {
			err = cerr
		}
	}()
	defer func() {
		for _, all := range []map[int]*transcript{pl.logs, pl.records} {
			for _, l := range all {
				if cerr := l.close(); err == nil {
					err = cerr
				}
			}
		}
	}()
	if o.mode == "mcp" {
		pl.mcp, err = startMCP(pl.p, o.profile)
		if err != nil {
			return nil, err
		}
		defer pl.mcp.close()
		pl.schema = o.tokens(pl.mcp.schema)
	}
	if err := pl.begin(); err != nil {
		return nil, err
	}
	for i, st := range s.steps {
		if err := pl.step(st); err != nil {
			return nil, fmt.Errorf("trace %s, step %d (%s of file %d): %w", t.name, i, st.op, st.file, err)
		}
	}
	if _, err := pl.hook(0, "Stop", nil); err != nil {
		return nil, err
	}
	for _, b := range pl.bills {
		b.end(pl.res)
	}
	return pl.res, nil
}

// file returns the path of a file relative to the project's directory.
func (pl *player) file(n int) string {
	if pl.outside[n] {
		return "../elsewhere/" + fileName(n)
	}
	return fileName(n)
}

func fileName(n int) string { return fmt.Sprintf("src/part%d/file%02d.ts", n%3, n) }

func (pl *player) begin() error {
	if _, err := pl.hook(0, "SessionStart", fields{"source": "startup"}); err != nil {
		return err
	}
	return pl.prompt()
}

func (pl *player) step(st step) error {
	if pl.agents[st.agent] == nil {
		pl.agents[st.agent], pl.bills[st.agent] = &conversation{}, &bill{}
		if st.agent != 0 {
			if _, err := pl.hook(st.agent, "SubagentStart", nil); err != nil {
				return err
			}
		}
	}
	if !pl.epochs[st.agent] && st.op != "compact" {
		pl.epochs[st.agent] = true
		pl.res.contexts++
		pl.res.schema += pl.schema
		pl.bills[st.agent].enter(0, pl.schema)
	}
	switch st.op {
	case "compact":
		return pl.compact(st.agent)
	case "prompt":
		return pl.prompt()
	case "rewind":
		return pl.rewind(st.last)
	case "resume":
		return pl.resume()
	case "clear":
		return pl.silence()
	case "command":
		if pl.o.corpus != nil {
			return pl.command(st)
		}
		fallthrough
	case "other":
		n := st.chars * 10 / 34
		pl.res.other += n
		pl.bills[st.agent].request()
		pl.bills[st.agent].enter(n, n)
		pl.transcript(st.agent).other(st.chars)
		return nil
	}
	if st.pre != nil {
		if now := content(st.pre, pl.texts); now != pl.disk[st.file] {
			write := pl.p.write
			if st.others {
				write = pl.p.others
			}
			if err := write(pl.file(st.file), now); err != nil {
				return err
			}
			pl.disk[st.file] = now
		}
	}
	pl.call(st.agent)
	switch st.op {
	case "read":
		return pl.read(st)
	case "shell":
		pl.res.reads++
		return pl.shell(st)
	case "edit":
		return pl.edit(st)
	case "write":
		return pl.write(st)
	}
	return fmt.Errorf("unknown step %q", st.op)
}

// compact plays a compaction. Only the texts that the hooks add remain in the context.
func (pl *player) compact(agent int) error {
	pl.bills[agent].end(pl.res)
	for _, ev := range []struct {
		name string
		more fields
	}{{"PreCompact", fields{"trigger": "auto"}}, {"PostCompact", nil}, {"SessionStart", fields{"source": "compact"}}} {
		if agent != 0 && ev.name == "SessionStart" {
			continue
		}
		out, err := pl.hook(agent, ev.name, ev.more)
		if err != nil {
			return err
		}
		pl.inject(agent, out.Specific.Context)
	}
	pl.agents[agent], pl.epochs[agent] = &conversation{}, false
	if agent == 0 {
		pl.points = nil
	}
	pl.transcript(agent).compacted()
	return pl.lost(agent)
}

func (pl *player) inject(agent int, text string) {
	if text != "" {
		pl.res.injected += pl.o.tokens(text)
		pl.bills[agent].enter(0, pl.o.tokens(text))
		if pl.o.verbose {
			pl.o.progress(fmt.Sprintf("%s injected  %d tokens: %q", pl.res.name, pl.o.tokens(text), text))
		}
	}
}

// notified adds a notice about changes by others, or a warning before a write, to the context.
func (pl *player) notified(agent int, text string) {
	if text == "" {
		return
	}
	pl.inject(agent, text)
	n := pl.o.tokens(text)
	pl.res.news, pl.res.newsTokens = pl.res.news+1, pl.res.newsTokens+n
	b := pl.bills[agent]
	b.entries[len(b.entries)-1].news = n
}

func (pl *player) read(st step) error {
	lines := strings.Split(pl.disk[st.file], "\n")
	a := ask{path: pl.file(st.file), now: lines, first: st.first, last: min(st.last, len(lines)), whole: st.whole}
	m := pl.agents[st.agent].mind(st.file, pl.given[st.agent])
	pl.res.reads++
	switch {
	case pl.o.mode == "mcp":
		return pl.readMCP(st, m, a)
	case pl.o.client == codex:
		return pl.shell(st)
	case pl.o.client == opencode:
		return pl.readOpenCode(st, m, a)
	}
	return pl.readHooks(st, m, a)
}

// score counts the tokens of a read: without cachebro, with cachebro, and as the oracle would have
// sent it.
func (pl *player) score(st step, a ask, kind string, sent, best, expiring int) {
	full := pl.o.tokens(a.full)
	pl.res.full += full
	pl.res.sent += sent
	pl.res.oracle += best
	pl.res.expiring += expiring
	pl.given[st.agent] += sent
	pl.bills[st.agent].enter(full, sent)
	switch kind {
	case "unchanged":
		pl.res.stubs++
	case "changed":
		pl.res.diffs++
	}
	if sent > best {
		pl.res.lost[kind] += sent - best
	}
	if pl.o.verbose && (sent != best || kind != "full") {
		pl.o.progress(fmt.Sprintf("%s %-9s agent %d file %2d lines %4d-%-4d of %4d: full %5d sent %5d oracle %5d within 60k %5d", pl.res.name, kind, st.agent, st.file, a.first, a.last, len(a.now), full, sent, best, expiring))
	}
}

// delivered judges the answer that the model received for a read, and adds it to the context.
func (pl *player) delivered(st step, m *mind, a ask, runs []lineRun, err error) {
	last := a.last
	if last == len(a.now) && len(a.now) > 1 && a.now[last-1] == "" {
		last-- // do not judge the empty line after the last newline
	}
	reading := func(based bool) func(*mind) {
		if a.whole {
			return arranged(runs, true, based)
		}
		return func(m *mind) { // lines that the answer did not show stay as they were
			for _, r := range runs {
				shown := r.shown
				if shown == nil && based && m.base != nil && r.from-1+r.n <= len(m.base.lines) {
					shown = m.base.lines[r.from-1 : r.from-1+r.n]
				}
				if shown != nil {
					shown, ends := toTheEnd(r.at, shown, a.now)
					m.learn(r.at, shown, ends)
				}
			}
		}
	}
	// If a statement names an earlier read, it refers to the text of that read, even if parts of
	// the file were shown later. So try this meaning first.
	take := reading(true)
	if err == nil && judged(m, take, a.now, a.first, last) != nil {
		take = reading(false)
	}
	if err == nil && pl.outside[st.file] && runs[0].shown == nil {
		err = errors.New("a file outside of the project was not shown")
	}
	if err == nil {
		err = judged(m, take, a.now, a.first, last)
	}
	pl.false(st, err)
	pl.agents[st.agent].add(message{file: st.file, call: pl.last, clock: pl.given[st.agent], result: max(1, pl.o.tokens(a.full)), take: take})
}

// toTheEnd returns the shown lines, the first of which has the number at, and whether they reach the
// end of the file. A reader that has read up to the last newline has read the whole file.
func toTheEnd(at int, shown, now []string) ([]string, bool) {
	if n := len(now) - 1; at-1+len(shown) == n && now[n] == "" {
		shown = append(slices.Clone(shown), "")
	}
	return shown, at-1+len(shown) == len(now)
}

func (pl *player) false(st step, err error) {
	if err != nil {
		pl.res.wrong = append(pl.res.wrong, fmt.Sprintf("trace %s call %s, agent %d, %s of file %d, lines %d-%d: %v", pl.res.name, pl.last, st.agent, st.op, st.file, st.first, st.last, err))
	}
}

// fields is a JSON object.
type fields = map[string]any

// hookOutput holds the output of a hook.
type hookOutput struct {
	Decision, Reason string // Codex
	Output           string // OpenCode
	Specific         struct {
		Context string `json:"additionalContext"`
		Updated *struct {
			Type   string `json:"type"`
			Stdout string `json:"stdout"`
			File   struct {
				Content   string `json:"content"`
				NumLines  int    `json:"numLines"`
				StartLine int    `json:"startLine"`
			} `json:"file"`
		} `json:"updatedToolOutput"`
	} `json:"hookSpecificOutput"`
}

// hook sends one event, in this process or through a separate process.
func (pl *player) hook(agent int, name string, more fields) (out hookOutput, err error) {
	ev := fields{"session_id": session, "prompt_id": fmt.Sprintf("prompt-%d", pl.prompts), "transcript_path": pl.transcript(0).name, "cwd": pl.p.dir, "permission_mode": "default", "hook_event_name": name}
	if agent != 0 {
		ev["agent_id"], ev["agent_type"] = fmt.Sprintf("agent%d", agent), "general-purpose"
	}
	for k, v := range more {
		ev[k] = v
	}
	args := []string{name}
	if pl.o.client != "" && pl.o.client != claude {
		if !pl.dialect(agent, ev) {
			return out, nil
		}
		args = append(args, "--client="+pl.o.client)
	}
	in, err := json.Marshal(ev)
	if err != nil {
		return out, err
	}
	var stdout bytes.Buffer
	if pl.o.process {
		var stderr bytes.Buffer
		cmd := exec.Command(pl.o.binary, append([]string{"hook"}, args...)...)
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = pl.p.dir, pl.p.env, bytes.NewReader(in), &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return out, fmt.Errorf("hook %s: %w: %s", name, err, stderr.String())
		}
	} else {
		hooks.Run(context.Background(), pl.hookEnv(in, args, &stdout))
	}
	if stdout.Len() == 0 {
		return out, nil
	}
	err = json.Unmarshal(stdout.Bytes(), &out)
	if pl.o.client == gemini && (out.Specific.Updated != nil || out.Decision != "" || out.Output != "") {
		pl.res.wrong = append(pl.res.wrong, fmt.Sprintf("trace %s: %s of a client that does not report its context is answered by %s", pl.res.name, name, stdout.String()))
	}
	return out, err
}

func (pl *player) hookEnv(in []byte, args []string, stdout *bytes.Buffer) hooks.Env {
	vars := map[string]string{"CLAUDE_PROJECT_DIR": pl.p.dir, "AI_AGENT": agentName}
	return hooks.Env{
		Stdin: bytes.NewReader(in), Stdout: stdout, Args: args,
		Getenv: func(k string) string { return vars[k] }, Now: time.Now, Dir: pl.p.dir, Paths: pl.p.paths, Limit: time.Minute,
		Dial: func(ctx context.Context, root string) (*wire.Client, error) {
			// Do not use short time-outs, because a slow daemon on a loaded machine must not be
			// taken for a hung daemon.
			return wire.Dial(ctx, pl.p.paths, wire.Hello{Version: pl.o.version, Client: "hook", Root: root}, wire.Timeouts{})
		},
	}
}
