package hooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// OpenCode's plugin interface shows each request before the model gets it, with every result in it.
// Our plugin reports the request as Claude Code's events. PostToolUse contains the result of one
// call. PostToolBatch is sent with the next request, and lists the calls in the context and the
// results that are new in it. OpenCode's results have other shapes, which this code translates in
// both directions.

// openCodeRead is a result of OpenCode's read tool: a head, the numbered lines, and the text
// after them, such as instructions for the directory.
type openCodeRead struct {
	lines []string
	first int
	tail  string
}

// parseOpenCodeRead parses a result of this form:
//
//	<path>…</path>
//	<type>file</type>
//	<content>
//	12: text
//
//	(End of file - total 12 lines)
//	</content>
//
// It returns false for any other form.
func parseOpenCodeRead(output string) (r openCodeRead, ok bool) {
	const open, end = "</path>\n<type>file</type>\n<content>\n", "\n</content>"
	head, rest, found := strings.Cut(output, open)
	if !found || !strings.HasPrefix(head, "<path>") || strings.Contains(head, "\n") {
		return r, false
	}
	for {
		line, after, more := strings.Cut(rest, "\n")
		if !more {
			return r, false
		}
		rest = after
		if line == "" {
			break
		}
		number, text, numbered := strings.Cut(line, ": ")
		n, err := strconv.Atoi(number)
		if !numbered || err != nil || r.first > 0 && n != r.first+len(r.lines) {
			return r, false
		}
		r.first = cmp.Or(r.first, n)
		r.lines = append(r.lines, text)
	}
	footer, tail, found := strings.Cut(rest, end)
	if !found || !strings.HasPrefix(footer, "(") || strings.Contains(footer, "\n") {
		return r, false
	}
	r.tail = tail
	return r, r.first > 0
}

// text returns the lines as in the file. The result does not show whether the last line ends in a
// newline. text adds one only if the last line is empty, because that line would otherwise be lost.
func (r openCodeRead) text() string {
	text := strings.Join(r.lines, "\n")
	if r.lines[len(r.lines)-1] == "" {
		text += "\n"
	}
	return text
}

// translateOpenCode gives a result the shape of Claude Code's tool of that name.
func translateOpenCode(e *event) {
	output := e.response.str("output")
	e.own = output
	own := e.response
	e.response = nil
	put := func(name string, v any) {
		if b, err := json.Marshal(v); err == nil {
			if e.response == nil {
				e.response = fields{}
			}
			e.response[name] = b
		}
	}
	switch e.tool {
	case "Read":
		if r, ok := parseOpenCodeRead(output); ok {
			put("type", "text")
			put("file", readFile{FilePath: e.input.str("file_path"), Content: r.text(), NumLines: len(r.lines), StartLine: r.first})
		}
	case "Bash":
		// The text contains both streams and may contain notes by OpenCode. It counts as a file's
		// text only if a later comparison finds it equal to the file.
		if exit, ok := own.object("metadata").number("exit"); ok && exit == 0 && !own.object("metadata").truth("truncated") {
			put("stdout", output)
		}
	case "Edit":
		put("originalFile", own.str("before"))
		put("oldString", e.input.str("oldString"))
		put("newString", e.input.str("newString"))
		put("replaceAll", e.input.truth("replaceAll"))
	case "Write":
		put("content", e.input.str("content"))
	}
}

// asText turns a replacement in the shape of Claude Code's results into the text that the client's
// own tool would have returned.
func asText(e event, updated fields, note string) string {
	if e.tool == "Bash" {
		return updated.str("stdout")
	}
	var f readFile
	r, ok := parseOpenCodeRead(e.own)
	if !ok || json.Unmarshal(updated["file"], &f) != nil {
		return ""
	}
	if f.StartLine == 0 { // a sentence instead of lines
		return f.Content + r.tail
	}
	var b strings.Builder
	if note != "" {
		b.WriteString(note + "\n")
	}
	for i, line := range strings.Split(strings.TrimSuffix(f.Content, "\n"), "\n") {
		fmt.Fprintf(&b, "%d: %s\n", f.StartLine+i, line)
	}
	return strings.TrimSuffix(b.String(), "\n") + r.tail
}
