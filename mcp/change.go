package mcp

import (
	"context"
	"io/fs"
	"os"

	"cachebro/store/leaf/text"
	"cachebro/store/undo/displace"
	"cachebro/store/wire"
)

// change is one file changed by one of our tools. First the old content is saved, then the file is
// written, then the store records who wrote it and which part of the new content the agent has
// seen.
type change struct {
	rel        string
	f          *displace.File
	after      []byte
	old, new   string // what the agent supplied
	replaceAll bool
	unseen     bool // the agent supplied none of its lines and has seen none
	unkept     bool // the present content may be lost
}

// unsafeNote is added to the answer if the store could not record an edit.
const unsafeNote = "\n(cachebro's store does not respond, so this change may be missing from its history)"

// apply writes c.after. Without a mount it first passes the old content to the store. With a mount
// the overlay saves it, even without a daemon.
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
		if serr == nil && !before.Kept && before.Class != "" && before.Class != "tracked" && !ch.unkept {
			return "", wire.Errorf(wire.ErrConflict, "overwrite_unkept=true writes it anyway", "%s is %s, so its present content is not saved in the history", quote(ch.rel), before.Class)
		}
	}
	if ctx.Err() != nil {
		return "", ctx.Err() // nothing is written yet
	}
	end := c.window(ctx, path)
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
			// The reader then gets more text than needed, never less.
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

// window tells the daemon that what this process writes until end belongs to this tool call, if a
// session or tool-use id is known.
func (c *call) window(ctx context.Context, paths ...[]byte) (end func(failed bool)) {
	session := c.s.session(c.conn)
	if session == "" && c.reader.ToolUse == "" {
		return func(bool) {}
	}
	tc := wire.ToolCall{Session: session, ToolUse: c.reader.ToolUse, Tool: c.tool.name, Paths: paths, PID: os.Getpid()}
	if tc.ToolUse == "" {
		tc.ToolUse = "mcp-" + randomID()
	}
	if _, err := c.s.backend.try(ctx, noteWait, wire.MToolBegin, tc, nil, nil); err != nil {
		return func(bool) {}
	}
	return func(failed bool) {
		tc.Failed = failed
		_, _ = c.s.backend.try(context.WithoutCancel(ctx), noteWait, wire.MToolEnd, tc, nil, nil)
	}
}
