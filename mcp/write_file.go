package mcp

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"cachebro/mcp/textedit"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/displace"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// writeFileArgs are the arguments of write_file.
type writeFileArgs struct {
	Path    string `json:"path,required"`
	Content string `json:"content,required"`
	Expect  string `json:"expected_hash"`
	Unkept  bool   `json:"overwrite_unkept" list:"never"` // named by the refusal that it overrides
}

var writeFileTool = &tool{
	name: "write_file", title: "Write file", profile: ProfileAll, destroys: true, idempotent: true,
	desc: "Replaces the whole file with content. expected_hash: fail unless the file has this SHA-256 now (at least 8 hex digits), or \"absent\".",
	handler: with(func(ctx context.Context, c *call, a writeFileArgs) (*mcp.CallToolResult, error) {
		rel, err := c.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(a.Path, "/") {
			return nil, badInput(quote(a.Path)+" names a directory", "give the path of a file")
		}
		defer c.s.lockFile(rel)()
		f, err := c.s.open(rel)
		if err != nil {
			return nil, c.explain(rel, err)
		}
		defer f.Root.Close()
		if err := expect(rel, f, a.Expect); err != nil {
			return nil, err
		}
		if err := c.notOwn(ctx, a.Content, f.Content); err != nil {
			return nil, err
		}
		after, kept, err := textedit.Whole(f.Content, a.Content)
		if err != nil {
			return nil, err
		}
		if f.Exists && bytes.Equal(f.Content, after) {
			return textResult(fmt.Sprintf("%s already has exactly this content · hash %s", quote(rel), text.Hash(after)[:12])), nil
		}
		note, err := c.apply(ctx, change{rel: rel, f: f, after: after, unkept: a.Unkept, new: string(after), old: string(f.Content), replaceAll: true})
		if err != nil {
			return nil, err
		}
		if kept != "" {
			note = " · its " + kept + " kept" + note
		} else if text.EncodingOf(f.Content) == text.SingleByte && !text.Binary(f.Content) {
			note = " · it was not UTF-8 and is now" + note
		}
		what := "created"
		if f.Exists {
			what = "replaced " + text.Count(linesOf(f.Content), "line") + " in"
		}
		return textResult(fmt.Sprintf("%s %s · %s, %d bytes · hash %s%s", what, quote(rel), text.Count(linesOf(after), "line"), len(after), text.Hash(after)[:12], note)), nil
	}),
}

// expect checks expected_hash against the file. Another program can still write before the rename.
// The history then has its content.
func expect(rel string, f *displace.File, want string) error {
	if want == "" {
		return nil
	}
	want = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(want)), "sha256:")
	if want == "absent" {
		if f.Exists {
			return wire.Errorf(wire.ErrConflict, "read it, or write without expected_hash", "%s exists", quote(rel))
		}
		return nil
	}
	if len(want) < 8 || len(want) > 64 || strings.Trim(want, "0123456789abcdef") != "" {
		return badInput("expected_hash is not a SHA-256", "give 8 to 64 hex digits, or absent")
	}
	if !f.Exists {
		return wire.Errorf(wire.ErrConflict, "write without expected_hash to create it", "%s does not exist", quote(rel))
	}
	if now := text.Hash(f.Content); !strings.HasPrefix(now, want) {
		return wire.Errorf(wire.ErrConflict, "read it again before writing", "%s has changed: its hash is %s now", quote(rel), now[:12])
	}
	return nil
}
