package main

import (
	"fmt"
	"os"
	"strings"

	"cachebro/store"
	"cachebro/store/readers"
)

// numbered is a client's rendering of lines.
func numbered(text string, start int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = fmt.Sprintf("%d\t%s", start+i, l)
	}
	return strings.Join(lines, "\n")
}

// readHooks is a built-in Read: the client reads through the mount, the hook
// may replace the result.
func (pl *player) readHooks(st step, m *mind, a ask) error {
	b, err := os.ReadFile(pl.p.path(a.path))
	if err != nil {
		return err
	}
	if string(b) != pl.disk[st.file] {
		return fmt.Errorf("the mount shows %d bytes that are not the file's", len(b))
	}
	text := strings.Join(a.now[a.first-1:a.last], "\n")
	a.full = numbered(text, a.first)
	best, young, err := pl.oracle.least(m, a, pl.asRewrite(a), sentByHooks)
	if err != nil {
		return err
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
	switch u := out.Specific.Updated; {
	case u == nil:
		m.clock += pl.o.tokens(final)
		m.told(a.first, a.now[a.first-1:a.last], a.last == len(a.now))
	case strings.HasPrefix(u.File.Content, "cachebro: not repeated."):
		kind, final = "unchanged", numbered(u.File.Content, u.File.StartLine)
		pl.false(st, m.stub(a.now, a.first, a.last))
	default:
		kind, final = "changed", numbered(u.File.Content, u.File.StartLine)
		pl.false(st, m.span(u.File.StartLine, strings.Split(u.File.Content, "\n"), note, pl.disk[st.file]))
	}
	sent := pl.o.tokens(final)
	if note != "" {
		sent += pl.o.tokens(note)
	}
	pl.score(st, a, kind, sent, best, young)
	return pl.batch(st.agent, "Read", input, final)
}

// batch confirms what the model got.
func (pl *player) batch(agent int, tool string, input fields, final string) error {
	pl.transcript(agent).result(pl.last, final)
	_, err := pl.hook(agent, "PostToolBatch", fields{"tool_calls": []fields{{"tool_name": tool, "tool_use_id": pl.last, "tool_input": input, "tool_response": final}}})
	return err
}

// asRewrite turns the oracle's request into one about a client's own result.
func (pl *player) asRewrite(a ask) func(string, *readers.Request) {
	return func(text string, q *readers.Request) {
		lines := strings.Split(text, "\n")
		first, last := 1, len(lines)
		if !a.whole {
			first, last = a.first, min(a.last, len(lines))
		}
		q.Offset, q.Limit = 0, 0
		q.Rewrite = &readers.Rewrite{Rendering: store.RenderClaudeRead, StartLine: first, NumLines: last - first + 1, TotalLines: len(lines), Text: strings.Join(lines[first-1:last], "\n")}
	}
}

func sentByHooks(a readers.Answer) string {
	text := numbered(a.Text, a.Start)
	if a.Note != "" {
		text += "\n" + a.Note
	}
	return text
}

// edit is the client's own Edit, or our edit_file.
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
	b, err := os.ReadFile(pl.p.path(fileName(st.file)))
	if err != nil {
		return err
	}
	if string(b) != post {
		return fmt.Errorf("after the edit the file is not what it should be")
	}
	pl.disk[st.file] = post
	m := pl.agents[st.agent].of(st.file)
	m.clock = pl.given[st.agent]
	if st.everywhere {
		if was, ok := m.whole(); ok && was == pre {
			m.all(post)
		} else {
			delete(pl.agents[st.agent], st.file)
		}
		return nil
	}
	var with []string
	for _, c := range st.with {
		with = append(with, pl.texts.of(c.n))
	}
	m.edited(st.from, st.to, with)
	return nil
}

// strings are the texts of an edit, with as many lines around as it takes to
// name one place only.
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

// clientEdit is the client's own tool.
func (pl *player) clientEdit(st step, old, repl, pre, post string) error {
	name := pl.p.path(fileName(st.file))
	input := fields{"file_path": name, "old_string": old, "new_string": repl, "replace_all": st.everywhere}
	out, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Edit", "tool_use_id": pl.last, "tool_input": input})
	if err != nil {
		return err
	}
	pl.inject(out.Specific.Context)
	if err := os.WriteFile(name, []byte(post), 0o644); err != nil {
		return err
	}
	if _, err := pl.hook(st.agent, "PostToolUse", fields{"tool_name": "Edit", "tool_use_id": pl.last, "tool_input": input, "tool_response": fields{
		"filePath": name, "oldString": old, "newString": repl, "originalFile": pre, "structuredPatch": []any{}, "userModified": false, "replaceAll": st.everywhere}}); err != nil {
		return err
	}
	return pl.batch(st.agent, "Edit", input, editedText(name))
}

// editedText is what the client's own Edit answers.
func editedText(name string) string { return "The file " + name + " has been updated successfully." }

func (pl *player) write(st step) error {
	post := content(st.post, pl.texts)
	name := pl.p.path(fileName(st.file))
	pl.res.edits++
	if pl.o.mode == "mcp" && pl.mcp.offers("write_file") {
		if err := pl.writeMCP(st, post); err != nil {
			return err
		}
	} else {
		input := fields{"file_path": name, "content": post}
		out, err := pl.hook(st.agent, "PreToolUse", fields{"tool_name": "Write", "tool_use_id": pl.last, "tool_input": input})
		if err != nil {
			return err
		}
		pl.inject(out.Specific.Context)
		if err := pl.p.write(fileName(st.file), post); err != nil {
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
	m := pl.agents[st.agent].of(st.file)
	m.clock = pl.given[st.agent]
	m.all(post)
	return nil
}
