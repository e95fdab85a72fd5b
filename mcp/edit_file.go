package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cachebro/mcp/textedit"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// editFileArgs are the arguments of edit_file.
type editFileArgs struct {
	Path string `json:"path,required" list:"lean"`
	Old  string `json:"old_string,required" list:"lean"`
	New  string `json:"new_string,required" list:"lean"`
	All  bool   `json:"replace_all"`
	// Unkept is not in the schema. The refusal that it overrides mentions it.
	Unkept bool `json:"overwrite_unkept" list:"never"`
}

var editFileTool = &tool{
	name: "edit_file", title: "Edit file", profile: ProfileDefault, destroys: true,
	lean: new(""),
	desc: "Replaces old_string, which must occur exactly once, or everywhere with replace_all.",
	handler: with(func(ctx context.Context, c *call, a editFileArgs) (*mcp.CallToolResult, error) {
		rel, err := c.resolve(a.Path)
		if err != nil {
			return nil, err
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
		if err := c.notOwn(ctx, a.New, f.Content); err != nil {
			return nil, err
		}
		done, err := textedit.Apply(quote(rel), f.Content, textedit.Edit{Old: a.Old, New: a.New, All: a.All})
		if err != nil {
			return nil, refused(err)
		}
		ch := change{rel: rel, f: f, after: done.Content, unkept: a.Unkept, old: a.Old, new: a.New, replaceAll: a.All}
		if len(done.Lines) == 1 {
			ch.old, ch.new, ch.replaceAll = done.Old, done.New, false
		}
		note, err := c.apply(ctx, ch)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("at line %d", done.Lines[0])
		if n := len(done.Lines); n > 1 {
			what = fmt.Sprintf("in %d places, the first at line %d", n, done.Lines[0])
		}
		if e := text.EncodingOf(f.Content); e == text.UTF16LE || e == text.UTF16BE {
			what += " as " + e.String()
		}
		return textResult(fmt.Sprintf("edited %s %s · %d -> %d lines%s", quote(rel), what, linesOf(f.Content), linesOf(done.Content), note)), nil
	}),
}

// notOwn refuses a text that is copied from one of cachebro's answers and is not in the file.
func (c *call) notOwn(ctx context.Context, given string, content []byte) error {
	lines := text.NewOwnWords(given, string(content))
	if len(lines) == 0 {
		return nil
	}
	var a wire.GivenAnswer
	if _, err := c.s.backend.try(ctx, readWait, wire.MGiven, wire.GivenQuery{Reader: c.reader, Lines: lines}, nil, &a); err != nil || a.Line == "" {
		return nil
	}
	line, _, _ := strings.Cut(a.Line, "\n")
	return badInput("the text is cachebro's answer, not a file's text: "+quote(line), text.OwnWordsHint)
}

func refused(err error) error {
	var r *textedit.Refusal
	if errors.As(err, &r) {
		return badInput(r.Why, r.Hint)
	}
	return err
}

// linesOf counts a file's lines as they are shown.
func linesOf(content []byte) int {
	shown, _ := text.Shown(content)
	return text.Lines(shown)
}
