package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/readers"
)

// numbered returns lines with their numbers, in the client's form.
func numbered(text string, start int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = fmt.Sprintf("%d\t%s", start+i, l)
	}
	return strings.Join(lines, "\n")
}

// readHooks plays a Read by the client's own tool. The client reads through the mount, and the hook
// may replace the result.
func (pl *player) readHooks(st step, m *mind, a ask) error {
	b, err := os.ReadFile(pl.p.path(a.path))
	if err != nil {
		return err
	}
	if string(b) != pl.disk[st.file] {
		return fmt.Errorf("the %d bytes read through the mount differ from the file", len(b))
	}
	text := strings.Join(a.now[a.first-1:a.last], "\n")
	a.full = numbered(text, a.first)
	best, expiring, err := pl.oracle.least(m, a, pl.asRewrite(a), sentByHooks)
	if err != nil {
		return err
	}
	if pl.outside[st.file] {
		best = pl.o.tokens(a.full)
		expiring = best
	}
	input := fields{"file_path": pl.p.path(a.path)}
	if !a.whole {
		input["offset"], input["limit"] = a.first, a.last-a.first+1
	}
	out, err := pl.hook(st.agent, "PostToolUse", fields{"tool_name": "Read", "tool_use_id": pl.last, "tool_input": input, "tool_response": fields{
		"type": "text", "file": fields{"filePath": pl.p.path(a.path), "content": text, "numLines": a.last - a.first + 1, "startLine": a.first, "totalLines": len(a.now)}}})
	if err != nil {
		return err
	}
	kind, final, note := "full", a.full, out.Specific.Context
	runs := []lineRun{{at: a.first, shown: a.now[a.first-1 : a.last]}}
	switch u := out.Specific.Updated; {
	case u == nil:
	case strings.HasPrefix(u.File.Content, "cachebro: "):
		kind, final = "unchanged", numbered(u.File.Content, u.File.StartLine)
		runs, err = repeated(u.File.Content)
	default:
		kind, final = "changed", numbered(u.File.Content, u.File.StartLine)
		runs, err = noted(note, u.File.StartLine, strings.Split(u.File.Content, "\n"))
	}
	pl.delivered(st, m, a, runs, err)
	sent := pl.o.tokens(final)
	if note != "" {
		sent += pl.o.tokens(note)
	}
	pl.score(st, a, kind, sent, best, expiring)
	return pl.batch(st.agent, "Read", input, final)
}

// batch reports to the hooks the text that the model received.
func (pl *player) batch(agent int, tool string, input fields, final string) error {
	pl.transcript(agent).result(pl.last, final)
	if tool == "Edit" || tool == "Write" {
		pl.bills[agent].enter(pl.o.tokens(final), pl.o.tokens(final))
	}
	_, err := pl.hook(agent, "PostToolBatch", fields{"tool_calls": []fields{{"tool_name": tool, "tool_use_id": pl.last, "tool_input": input, "tool_response": final}}})
	return err
}

// asRewrite returns a function that turns the oracle's request into a request about a client's own
// result.
func (pl *player) asRewrite(a ask) func(string, *readers.Request) {
	return func(text string, q *readers.Request) {
		lines := strings.Split(text, "\n")
		first, last := 1, len(lines)
		if !a.whole {
			first, last = a.first, min(a.last, len(lines))
		}
		q.Offset, q.Limit = 0, 0
		q.Rewrite = &readers.Rewrite{Rendering: store.RenderClaudeRead, StartLine: first, NumLines: last - first + 1, Text: strings.Join(lines[first-1:last], "\n")}
	}
}

func sentByHooks(a readers.Answer) string {
	text := numbered(a.Text, a.Start)
	if a.Note != "" {
		text += "\n" + a.Note
	}
	return text
}

// edit plays the client's own Edit or cachebro's edit_file.
func (pl *player) edit(st step) error {
	pre, post := content(st.pre, pl.texts), content(st.post, pl.texts)
	old, repl := pl.strings(st, pre)
	if strings.Count(pre, old) == 0 || old == repl {
		return fmt.Errorf("the edit of lines %d-%d changes nothing", st.from+1, st.to)
	}
	pl.res.edits++
	if pl.o.verbose {
		pl.o.progress(fmt.Sprintf("%s edit      agent %d file %2d lines %4d-%-4d of %4d become %d; old text has %d lines", pl.res.name, st.agent, st.file, st.from+1, st.to, len(st.pre), len(st.with), strings.Count(old, "\n")+1))
	}
	var err error
	if pl.o.mode == "mcp" && pl.mcp.offers("edit_file") {
		err = pl.editMCP(st, old, repl)
	} else {
		err = pl.clientEdit(st, old, repl, pre, post)
	}
	if err != nil {
		return err
	}
	b, err := os.ReadFile(pl.p.path(pl.file(st.file)))
	if err != nil {
		return err
	}
	if string(b) != post {
		return fmt.Errorf("after the edit the file has the wrong content")
	}
	pl.disk[st.file] = post
	pl.wrote(st, pl.edited(st))
	return nil
}

// wrote adds a message about the reader's own write. With Codex it adds none, because there later
// statements of cachebro about the file refer to an earlier read, which they name.
func (pl *player) wrote(st step, take func(*mind)) {
	if pl.o.client != codex {
		pl.agents[st.agent].add(message{file: st.file, call: pl.last, clock: pl.given[st.agent], take: take})
	}
}

// edited returns the effect of the reader's own edit on its beliefs. The reader learns the new
// lines if it knew the lines that they replace, and it learns that all later lines moved.
func (pl *player) edited(st step) func(*mind) {
	var with []string
	for _, c := range st.with {
		with = append(with, pl.texts.of(c.n))
	}
	places := []int{st.from}
	if st.everywhere {
		places = nil
		for i, c := range st.pre {
			if c.n == st.pre[st.from].n {
				places = append(places, i)
			}
		}
	}
	var old []string
	for _, c := range st.pre[st.from:st.to] {
		old = append(old, pl.texts.of(c.n))
	}
	return func(m *mind) {
		for _, place := range slices.Backward(places) {
			for _, m := range []*mind{m, m.base} {
				if m == nil {
					continue
				}
				if at := m.place(place, old); at >= 0 {
					m.edited(at, at+len(old), with)
				}
			}
		}
	}
}

// strings returns the old and the new text of an edit. Lines around the edit are included until the
// old text matches in only one place.
func (pl *player) strings(st step, pre string) (old, repl string) {
	line := func(c *cell) string { return pl.texts.of(c.n) }
	join := func(cs []*cell) string {
		parts := make([]string, len(cs))
		for i, c := range cs {
			parts[i] = line(c)
		}
		return strings.Join(parts, "\n")
	}
	if st.everywhere {
		return join(st.pre[st.from:st.to]), join(st.with)
	}
	from, to := st.from, st.to
	for {
		old = join(st.pre[from:to])
		repl = join(st.pre[from:st.from]) + glue(from < st.from && len(st.with) > 0) + join(st.with) + glue(to > st.to && (len(st.with) > 0 || from < st.from)) + join(st.pre[st.to:to])
		if strings.Count(pre, old) == 1 || from == 0 && to == len(st.pre) {
			return old, repl
		}
		if from > 0 {
			from--
		}
		if to < len(st.pre) {
			to++
		}
	}
}

func glue(yes bool) string {
	if yes {
		return "\n"
	}
	return ""
}

// clientEdit plays an edit by the client's own tool.
func (pl *player) clientEdit(st step, old, repl, pre, post string) error {
	name := pl.p.path(pl.file(st.file))
	input := fields{"file_path": name, "old_string": old, "new_string": repl, "replace_all": st.everywhere}
	response := fields{"filePath": name, "oldString": old, "newString": repl, "originalFile": pre, "structuredPatch": []any{}, "userModified": false, "replaceAll": st.everywhere}
	if pl.o.client == opencode {
		input = fields{"filePath": name, "file_path": name, "oldString": old, "newString": repl, "replaceAll": st.everywhere}
		response = fields{"output": "Edit applied successfully.", "before": pre}
	}
	if pl.o.client == codex { // Codex applies a patch itself and runs no hook for the patch
		pl.transcript(st.agent).result(pl.last, editedText(name))
		return os.WriteFile(name, []byte(post), 0o644)
	}
	out, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Edit", "tool_use_id": pl.last, "tool_input": input})
	if err != nil {
		return err
	}
	pl.notified(st.agent, out.Specific.Context)
	if err := os.WriteFile(name, []byte(post), 0o644); err != nil {
		return err
	}
	if _, err := pl.hook(st.agent, "PostToolUse", fields{"tool_name": "Edit", "tool_use_id": pl.last, "tool_input": input, "tool_response": response}); err != nil {
		return err
	}
	return pl.batch(st.agent, "Edit", input, editedText(name))
}

// editedText returns the answer of the client's own Edit.
func editedText(name string) string { return "The file " + name + " has been updated successfully." }

func (pl *player) write(st step) error {
	post := content(st.post, pl.texts)
	name := pl.p.path(pl.file(st.file))
	pl.res.edits++
	if pl.o.mode == "mcp" && pl.mcp.offers("write_file") {
		if err := pl.writeMCP(st, post); err != nil {
			return err
		}
	} else if pl.o.client == codex {
		if err := pl.p.write(pl.file(st.file), post); err != nil {
			return err
		}
	} else {
		input := fields{"filePath": name, "file_path": name, "content": post}
		out, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Write", "tool_use_id": pl.last, "tool_input": input})
		if err != nil {
			return err
		}
		pl.notified(st.agent, out.Specific.Context)
		if err := pl.p.write(pl.file(st.file), post); err != nil {
			return err
		}
		if _, err := pl.hook(st.agent, "PostToolUse", fields{"tool_name": "Write", "tool_use_id": pl.last, "tool_input": input, "tool_response": fields{
			"type": "create", "filePath": name, "content": post, "structuredPatch": []any{}, "originalFile": nil, "userModified": false}}); err != nil {
			return err
		}
		if err := pl.batch(st.agent, "Write", input, "File created successfully at: "+name); err != nil {
			return err
		}
	}
	pl.disk[st.file] = post
	pl.wrote(st, showing(1, strings.Split(post, "\n"), true))
	return nil
}
