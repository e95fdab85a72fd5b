package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

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
	name: "write_file", title: "Write file", destroys: true, idempotent: true,
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
		if err := c.refuseOwnText(ctx, a.Content, f.Content); err != nil {
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
// The history then has that program's content.
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
	name: "edit_file", title: "Edit file", destroys: true,
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
		if err := c.refuseOwnText(ctx, a.New, f.Content); err != nil {
			return nil, err
		}
		done, err := textedit.Apply(quote(rel), f.Content, textedit.Edit{Old: a.Old, New: a.New, All: a.All})
		if err != nil {
			return nil, refused(err)
		}
		ch := change{rel: rel, f: f, after: done.Content, unkept: a.Unkept, old: a.Old, new: a.New, replaceAll: a.All}
		if len(done.Lines) == 1 {
			ch.old, ch.new = done.Old, done.New
			ch.replaceAll = false
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

// refuseOwnText refuses a text that is copied from one of cachebro's answers and is not in the file.
func (c *call) refuseOwnText(ctx context.Context, given string, content []byte) error {
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

// change is one file changed by one of our tools. First the old content is saved, then the file is
// written, then the store records who wrote it and which part of the new content the agent has
// seen.
type change struct {
	rel        string
	f          *displace.File
	after      []byte
	old, new   string // what the agent supplied
	replaceAll bool
	unseen     bool // the agent supplied no line of the new content and has seen none
	unkept     bool // write even if the present content is not saved and would be lost
}

// unsafeNote is added to the answer if the store could not record an edit.
const unsafeNote = "\n(cachebro's store does not respond, so this change may be missing from its history)"

// apply writes ch.after. It first passes the old content to the store. If the daemon does not answer,
// only a mount saves the old content.
func (c *call) apply(ctx context.Context, ch change) (note string, err error) {
	s, path := c.s, []byte(ch.f.Path)
	var st wire.Status
	_, serr := s.backend.try(ctx, readWait, wire.MStatus, wire.Empty{}, nil, &st)
	mounted := serr == nil && st.Mounted
	if own, ok := relativeTo(st.State, s.opt.Root); serr == nil && ok {
		if _, inside := relativeTo(ch.f.Path, own); inside {
			return "", badInput(quote(ch.rel)+" belongs to cachebro's own data", "cachebro's history cannot be edited")
		}
	}
	if serr == nil && ch.f.Exists {
		var before wire.Ingest
		_, serr = s.backend.try(ctx, readWait, wire.MIngest, wire.Ingest{Path: path}, ch.f.Content, &before)
		unkept := serr == nil && !before.Kept && before.Class != "" && before.Class != "tracked"
		if unkept && !ch.unkept {
			return "", wire.Errorf(wire.ErrConflict, "overwrite_unkept=true writes it anyway", "%s is %s, so its present content is not saved in the history", quote(ch.rel), before.Class)
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err() // nothing is written yet
	}
	end := c.attributeWrites(ctx, path)
	err = ch.f.Put(ch.after)
	if err != nil {
		end(true)
		return "", fileError(ch.rel, err)
	}
	// The file has changed, so record that even if the call is cancelled.
	ctx = context.WithoutCancel(ctx)
	if serr == nil && !mounted {
		_, serr = s.backend.try(ctx, readWait, wire.MIngest, wire.Ingest{Path: path, PID: os.Getpid()}, ch.after, nil)
	}
	end(false)
	if c.reader != (wire.Reader{}) && serr == nil && !ch.unseen {
		own := wire.OwnEdit{Reader: c.reader, Path: []byte(ch.rel), Old: ch.old, New: ch.new, All: ch.replaceAll, Tool: c.tool.name}
		if ch.f.Exists {
			own.Before = text.Hash(ch.f.Content)
		}
		if _, oerr := s.backend.try(ctx, readWait, wire.MOwnEdit, own, ch.after, nil); oerr != nil {
			// This only costs tokens: the reader gets a text again that it already has.
			s.opt.Logger.Info("edit not recorded as shown", "path", ch.rel, "err", oerr)
		}
	}
	s.listHistory(ch.rel)
	if ch.f.Exists && ch.f.Info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		note = "\n(this write cleared its set-user-ID or set-group-ID bit, as every write does)"
	}
	if serr != nil {
		s.opt.Logger.Warn("edit without the store", "path", ch.rel, "err", serr)
		note += unsafeNote
	}
	return note, nil
}

// attributeWrites tells the daemon to attribute this process's writes to this tool call until the
// caller calls end. It does nothing if neither a session nor a tool-use id is known.
func (c *call) attributeWrites(ctx context.Context, paths ...[]byte) (end func(failed bool)) {
	session := c.s.session(c.conn)
	if session == "" && c.reader.ToolUse == "" {
		return func(bool) {}
	}
	tc := wire.ToolCall{Session: session, ToolUse: cmp.Or(c.reader.ToolUse, "mcp-"+randomID()), Tool: c.tool.name, Paths: paths, PID: os.Getpid()}
	if _, err := c.s.backend.try(ctx, noteWait, wire.MToolBegin, tc, nil, nil); err != nil {
		return func(bool) {}
	}
	return func(failed bool) {
		tc.Failed = failed
		_, _ = c.s.backend.try(context.WithoutCancel(ctx), noteWait, wire.MToolEnd, tc, nil, nil)
	}
}

// keyed orders the writers of one path within this process, so that no edit is lost. The zero value
// is ready.
type keyed struct {
	mu   sync.Mutex // guards held
	held map[string]*keyLock
}

type keyLock struct {
	sync.Mutex
	users int
}

func (k *keyed) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*keyLock)
	}
	l := k.held[key]
	if l == nil {
		l = &keyLock{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
}
