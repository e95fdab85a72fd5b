package mcp

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"cachebro/store/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// editFileArgs are the arguments of edit_file.
type editFileArgs struct {
	Path string `json:"path,required" list:"lean"`
	Old  string `json:"old_string,required" list:"lean"`
	New  string `json:"new_string,required" list:"lean"`
	All  bool   `json:"replace_all"`
	// Unkept is named by the refusal that needs it.
	Unkept bool `json:"overwrite_unkept" list:"never"`
}

var editFileTool = &tool{
	name: "edit_file", title: "Edit file", profile: ProfileDefault, destroys: true,
	lean: new(""),
	desc: "Replaces old_string, which must occur exactly once, or everywhere with replace_all.",
	handler: with(func(ctx context.Context, c *call, a editFileArgs) (*mcp.CallToolResult, error) {
		rel, err := c.s.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		switch {
		case a.Old == "":
			return nil, badInput("old_string is empty", "give the text to replace; a new file is made with write_file")
		case a.Old == a.New:
			return nil, badInput("old_string and new_string are the same", "nothing was changed")
		}
		defer c.s.lockFile(rel)()
		f, err := c.s.open(rel)
		if err != nil {
			return nil, c.explain(rel, err)
		}
		defer f.Root.Close()
		if !f.Exists {
			return nil, c.explain(rel, wire.ErrNotFound)
		}
		old, repl, at, err := find(rel, f.Content, a.Old, a.New, a.All)
		if err != nil {
			return nil, err
		}
		after := bytes.ReplaceAll(f.Content, []byte(old), []byte(repl))
		note, err := c.apply(ctx, change{rel: rel, f: f, after: after, unkept: a.Unkept, old: old, new: repl, all: a.All})
		if err != nil {
			return nil, err
		}
		first := 1 + bytes.Count(f.Content[:at[0]], []byte("\n"))
		what := fmt.Sprintf("at line %d", first)
		if len(at) > 1 {
			what = fmt.Sprintf("in %d places, the first at line %d", len(at), first)
		}
		return textResult(fmt.Sprintf("edited %s %s · %d -> %d lines%s", quote(rel), what, text.Lines(f.Content), text.Lines(after), note)), nil
	}),
}

// find looks old up in content and returns it, and its replacement, as the file
// spells them: a file with CRLF line ends is edited with CRLF although models
// write LF.
func find(rel string, content []byte, old, repl string, all bool) (o, r string, at []int, err error) {
	at = places(content, old)
	if len(at) == 0 && !strings.Contains(old, "\r") && bytes.Contains(content, []byte("\r\n")) {
		old, repl = crlf(old), crlf(repl)
		at = places(content, old)
	}
	switch {
	case len(at) == 0:
		return "", "", nil, badInput("old_string does not occur in "+quote(rel), notFoundHint(content, old))
	case len(at) > 1 && !all:
		var at5 []string
		for _, p := range at[:min(len(at), 5)] {
			at5 = append(at5, fmt.Sprint(1+bytes.Count(content[:p], []byte("\n"))))
		}
		return "", "", nil, badInput(fmt.Sprintf("old_string occurs %d times in %s (lines %s%s)", len(at), quote(rel), strings.Join(at5, ", "), etc(len(at) > 5)),
			"give more of the text around the one that is meant, or replace_all=true")
	}
	return old, repl, at, nil
}

func etc(more bool) string {
	if more {
		return ", …"
	}
	return ""
}

// crlf turns bare LF into CRLF.
func crlf(t string) string {
	return strings.ReplaceAll(strings.ReplaceAll(t, "\r\n", "\n"), "\n", "\r\n")
}

// places are the offsets that bytes.ReplaceAll would replace.
func places(content []byte, old string) (at []int) {
	for from := 0; ; {
		i := bytes.Index(content[from:], []byte(old))
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(old)
	}
}

// notFoundHint compares with white space left out, the usual slip.
func notFoundHint(content []byte, old string) string {
	want := strings.Join(strings.Fields(old), " ")
	if first, _, _ := strings.Cut(strings.TrimSpace(old), "\n"); want != "" {
		if strings.Contains(strings.Join(strings.Fields(string(content)), " "), want) {
			return "it does with other white space; read the lines again and copy them exactly"
		}
		if i := bytes.Index(content, []byte(strings.TrimSpace(first))); i >= 0 && strings.TrimSpace(first) != "" {
			return fmt.Sprintf("its first line is at line %d, but what follows differs; read it again", 1+bytes.Count(content[:i], []byte("\n")))
		}
	}
	return "read the file again; it may have changed"
}
