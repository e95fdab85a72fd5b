package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

var workingSetTool = &tool{
	name: "get_working_set", title: "Working set", reads: true, idempotent: true,
	desc: "Files touched in this session, by whom and when.",
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		ws, err := c.s.workingSet(ctx, c.conn)
		if err != nil {
			return nil, err
		}
		return textResult(c.s.workingSetText(ws)), nil
	}),
}

// session returns the id of the session that answers and the labels of edits refer to. The id never
// decides what a reader has seen. A connection that is a reader counts as a session, which the
// daemon records under this id.
func (s *Server) session(c *conn) string {
	if s.opt.Session == "" && s.opt.Reader == ReaderConnection && c != nil {
		return "connection:" + c.id
	}
	return s.opt.Session
}

// workingSet returns the session's files. If no session is known, or no hook reported it, a shell's
// writes cannot be assigned to it. Then all changes since this server started count too, because
// a client without our hooks starts one server per session.
func (s *Server) workingSet(ctx context.Context, c *conn) (wire.WorkingSet, error) {
	var own, all wire.WorkingSet
	session := s.session(c)
	if session != "" {
		_, err := s.backend.ask(ctx, wire.MWorkingSet, wire.WorkingSetQuery{Session: session}, nil, &own)
		if err != nil && !errors.Is(err, wire.ErrNotFound) {
			return own, err
		}
		if err == nil && len(own.Files) > 0 && s.opt.Session != "" {
			return own, nil
		}
	}
	if _, err := s.backend.ask(ctx, wire.MWorkingSet, wire.WorkingSetQuery{Since: s.began}, nil, &all); err != nil {
		return all, err
	}
	for _, f := range own.Files {
		i := slices.IndexFunc(all.Files, func(o wire.WorkingFile) bool { return bytes.Equal(o.Path, f.Path) })
		if i < 0 {
			all.Files = append(all.Files, f)
		} else {
			all.Files[i].Reads = f.Reads
		}
	}
	slices.SortStableFunc(all.Files, func(a, b wire.WorkingFile) int { return b.Last.Compare(a.Last) })
	return all, nil
}

func (s *Server) workingSetText(ws wire.WorkingSet) string {
	if len(ws.Files) == 0 {
		return "no files touched yet"
	}
	return fit(s, ws.Files, func(f wire.WorkingFile) string { return workingLine(f) + "\n" }, "")
}

func workingLine(f wire.WorkingFile) string {
	p := quote(string(f.Path))
	if f.Edits == 0 {
		line := "R " + p
		if f.Others != "" {
			line += " · changed since by " + clean(f.Others)
		}
		return line
	}
	times := "edits"
	if f.Edits == 1 {
		times = "edit"
	}
	letter := "M"
	if f.Deleted {
		letter = "D"
	}
	line := fmt.Sprintf("%s %s (%d %s) · last %s", letter, p, f.Edits, times, stamp(f.Last))
	if f.By != "" {
		line += " by " + quote(f.By)
	}
	if f.Others != "" {
		line += " · changed since by " + clean(f.Others)
	}
	return line
}

// reads answers search_history with type=read, from the working set, because the log records only
// changes.
func (c *call) reads(ctx context.Context, filter string, limit int) (*mcp.CallToolResult, error) {
	match := func(string) bool { return true }
	switch {
	case text.IsGlob(filter):
		match = func(p string) bool { return text.GlobSelects(filter, p) }
	case filter != "":
		rel, err := c.resolve(filter)
		if err != nil {
			return nil, err
		}
		match = func(p string) bool { return rel == "" || p == rel || strings.HasPrefix(p, rel+"/") }
	}
	ws, err := c.s.workingSet(ctx, c.conn)
	if err != nil {
		return nil, err
	}
	var lines []string
	for i := len(ws.Files) - 1; i >= 0; i-- {
		if f := ws.Files[i]; f.Reads > 0 && match(string(f.Path)) {
			lines = append(lines, fmt.Sprintf("%s read %s · %dx", stamp(f.Last), quote(string(f.Path)), f.Reads))
		}
	}
	if len(lines) == 0 {
		return textResult("no reads recorded"), nil
	}
	return textResult(strings.Join(lines[max(0, len(lines)-limit):], "\n")), nil
}
