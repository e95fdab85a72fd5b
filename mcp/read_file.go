package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

// readFileArgs are the arguments of read_file.
type readFileArgs struct {
	Path       string `json:"path,required" list:"lean"`
	Offset     int    `json:"offset" list:"lean"`
	Limit      int    `json:"limit" list:"lean"`
	Force      bool   `json:"force"`
	DiffOffset int    `json:"diff_offset"`
	Symbol     string `json:"symbol"`
	Outline    bool   `json:"outline"`
	At         string `json:"at"`
	// ByteOffset is not in the schema. An answer that cuts a long line mentions it.
	ByteOffset int `json:"byte_offset" list:"never"`
}

var readFileTool = &tool{
	name: "read_file", title: "Read file", reads: true, idempotent: true, lean: &leanRead,
	desc: "File text (limit lines from line offset). A re-read gives a diff or [unchanged]; asking once more, or force, gives the text. diff_offset: rest of a cut diff. at: as it was (10m, 12:40, 812, @3).",
	handler: with(func(ctx context.Context, c *call, a readFileArgs) (*mcp.CallToolResult, error) {
		switch {
		case a.Offset < 0:
			return nil, badInput("offset is negative", "lines are counted from 1")
		case a.Limit < 0:
			return nil, badInput("limit is negative", "leave it out to read to the end")
		case a.ByteOffset < 0:
			return nil, badInput("byte_offset is negative", "use the value given in the answer that cut the line")
		case a.DiffOffset < 0:
			return nil, badInput("diff_offset is negative", "use the value given at the end of the cut diff")
		}
		rel, err := c.resolve(c.fetchable(ctx, a.Path))
		if err != nil {
			return nil, err
		}
		if a.At != "" {
			if a.Outline || a.Symbol != "" || a.DiffOffset != 0 {
				return nil, badInput("at can only be combined with offset and limit", "leave out symbol, outline and diff_offset")
			}
			return c.readPast(ctx, readArgs{rel: rel, offset: a.Offset, limit: a.Limit, byteOffset: a.ByteOffset}, a.At)
		}
		if a.ByteOffset > 0 {
			t, err := c.readLong(readArgs{rel: rel, offset: a.Offset, byteOffset: a.ByteOffset}, c.s.most(ctx))
			if err != nil {
				return nil, c.explain(rel, err)
			}
			return t.result(), nil
		}
		if a.Outline {
			return c.outlineText(ctx, rel)
		}
		note := ""
		if a.Symbol != "" {
			a.Offset, a.Limit, note, err = c.symbolRange(ctx, rel, a.Symbol)
			if err != nil {
				return nil, err
			}
		}
		t, err := c.read(ctx, readArgs{rel: rel, offset: a.Offset, limit: a.Limit, force: a.Force, diffOffset: a.DiffOffset})
		if err != nil {
			return nil, err
		}
		if note != "" {
			t.notes = append(t.notes, note)
		}
		return t.result(), nil
	}),
}

// leanRead is the shortest description that lets a client read a file. It mentions neither force (a
// repeated read gives the whole text) nor diff_offset (an answer with a cut diff names it).
var leanRead = "Re-reads: diff or [unchanged], then full"

// readArgs is one checked read of one file.
type readArgs struct {
	rel           string
	offset, limit int
	force         bool
	diffOffset    int
	byteOffset    int  // if the line with number offset is too long for one result, where in it to begin
	uncounted     bool // the text does not count as shown
	others        int  // the number of other files in the same result
}

// readText is the result of a read. The text comes alone and first, so that a full text is exactly
// the file's bytes. The notes follow separately.
type readText struct {
	text  string
	notes []string
}

func (t readText) result() *mcp.CallToolResult {
	r := textResult(t.text)
	for _, n := range t.notes {
		r.Content = append(r.Content, mcp.NewTextContent(n))
	}
	return r
}

// read asks the daemon what to send to this reader. Without an answer, it reads the file itself.
func (c *call) read(ctx context.Context, a readArgs) (readText, error) {
	s := c.s
	req := wire.ReadRequest{
		Reader: c.reader, Path: []byte(a.rel), Offset: a.offset, Limit: a.limit, DiffOffset: a.diffOffset, MaxTokens: s.most(ctx),
		Force: a.force || c.wasUnknown(a.rel), Tool: c.tool.name, Pending: c.reader.ToolUse != "", Small: c.small(1 + a.others),
	}
	if a.uncounted {
		req.Reader, req.Pending = wire.Reader{}, false
	}
	var ans wire.ReadAnswer
	body, err := s.backend.try(ctx, readWait, wire.MRead, req, nil, &ans)
	if errors.Is(err, wire.ErrOutside) {
		// The daemon refuses every absolute symlink, even one to a file inside the project. So read
		// the link's target. If that counted as shown, a read of the target under its own name, which
		// the reader may never have seen, would be answered by "unchanged".
		if real, terr := s.target(a.rel); terr == nil && real != a.rel {
			c.sentUnknown(a.rel)
			a.rel, a.uncounted = real, true
			return c.read(ctx, a)
		}
	}
	// Measure the file only if it might be too large for one result, or if this process reads it,
	// because looking at it through the mount costs as much as everything else.
	var p page
	limit := a.limit
	if err != nil || ans.Kind == wire.ReadLarge {
		var perr error
		p, perr = s.page(a.rel, a.offset, a.limit, s.most(ctx))
		if perr != nil && !errors.Is(perr, wire.ErrOutside) {
			return readText{}, c.explain(a.rel, perr)
		}
		if p.long {
			return c.readLong(a, s.most(ctx))
		}
		if p.limit > 0 {
			limit = p.limit
		}
		req.Limit = limit
		req.MaxTokens, req.DiffOffset = 0, 0
		req.Force = req.Force || ans.Again
	}
	if err == nil && ans.Kind == wire.ReadLarge {
		ans = wire.ReadAnswer{}
		body, err = s.backend.try(ctx, readWait, wire.MRead, req, nil, &ans)
	}
	switch {
	case ctx.Err() != nil:
		return readText{}, ctx.Err()
	case unreachable(err):
		s.opt.Logger.Warn("read without the store", "path", a.rel, "err", err)
		t, perr := c.readPlain(a, limit, p)
		if perr != nil {
			return readText{}, c.explain(a.rel, perr)
		}
		return t, nil
	}
	if err != nil {
		return readText{}, c.explain(a.rel, err)
	}
	if ans.Binary && ans.Kind == wire.ReadFull {
		return readText{}, c.binary(a.rel)
	}
	p.total = ans.TotalLines // the file may have changed since it was measured
	if ans.Kind == wire.ReadFull {
		if !a.uncounted && a.offset <= 1 && limit == 0 {
			c.sentWhole(a.rel)
		}
		return compose(ans, body, s.encodingNote(a.rel), p.nextNote(a.rel, a.offset)), nil
	}
	return compose(ans, body, p.nextNote(a.rel, a.offset)), nil
}

// encodingNote returns a note that a file is UTF-16 and shown as UTF-8, or "".
func (s *Server) encodingNote(rel string) string {
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return ""
	}
	defer root.Close()
	f, err := openRegular(root, rel)
	if err != nil {
		return "" // the link cannot be opened or the file is gone; the text is sent anyway
	}
	defer f.Close()
	var mark [2]byte
	if _, err := io.ReadFull(f, mark[:]); err != nil || !text.Wide(mark[:]) {
		return ""
	}
	return "[cachebro: the file is " + text.EncodingOf(mark[:]).String() + "; edit_file preserves that]"
}

// compose joins label and text exactly as the daemon recorded them, to match what the client's hook
// later reports as delivered. JSON cannot carry bytes that are not UTF-8, so these are replaced,
// with a note.
func compose(ans wire.ReadAnswer, body []byte, notes ...string) readText {
	t := readText{text: string(body)}
	switch {
	case ans.Label == "":
	case t.text == "":
		t.text = ans.Label
	default:
		t.text = ans.Label + "\n" + t.text
	}
	if !utf8.ValidString(t.text) {
		t.text = strings.ToValidUTF8(t.text, "\uFFFD")
		t.notes = append(t.notes, "[cachebro: some bytes are not UTF-8 and are shown as \uFFFD]")
	}
	for _, n := range notes {
		if n != "" {
			t.notes = append(t.notes, n)
		}
	}
	return t
}

// readPlain reads without the daemon. It returns the text itself, which never counts as shown.
func (c *call) readPlain(a readArgs, limit int, p page) (readText, error) {
	c.sentUnknown(a.rel)
	b, err := c.s.content(a.rel)
	if err != nil {
		return readText{}, err
	}
	shown, isText := text.Shown(b)
	if !isText {
		return readText{}, binary(a.rel, len(b))
	}
	b = shown
	part, ok := lines(b, max(a.offset, 1), limit)
	if !ok {
		return readText{}, badInput(fmt.Sprintf("offset %d is beyond the end: %s has %d lines", a.offset, quote(a.rel), text.Lines(b)), "")
	}
	return compose(wire.ReadAnswer{Kind: wire.ReadFull}, part, p.nextNote(a.rel, a.offset)), nil
}

// content reads a whole file of the project.
func (s *Server) content(name string) ([]byte, error) {
	rel, err := s.target(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return nil, fileError(name, err)
	}
	defer root.Close()
	return readAll(root, rel)
}

// lines returns lines [first, first+limit) of b, where limit 0 means to the end. It returns false
// if first is beyond the end.
func lines(b []byte, first, limit int) ([]byte, bool) {
	if first > 1 && first > text.Lines(b) {
		return nil, false
	}
	for n := 1; n < first; n++ {
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	if limit > 0 {
		end := 0
		for n := 0; n < limit && end < len(b); n++ {
			i := bytes.IndexByte(b[end:], '\n')
			if i < 0 {
				return b, true
			}
			end += i + 1
		}
		b = b[:end]
	}
	return b, true
}

// readLong returns a part of a line that is too long for one result, from a byte offset on. The
// part does not count as shown.
func (c *call) readLong(a readArgs, most int) (readText, error) {
	c.sentUnknown(a.rel)
	b, err := c.s.content(a.rel)
	if err != nil {
		return readText{}, err
	}
	b, ok := text.Shown(b)
	if !ok {
		return readText{}, binary(a.rel, len(b))
	}
	part, notes, err := longPart(a, b, most, "")
	if err != nil {
		return readText{}, err
	}
	return compose(wire.ReadAnswer{}, part, notes...), nil
}

// longPart returns as much of a line as one result holds, from a.byteOffset on, and notes that name
// the call for the rest. at is appended to that call.
func longPart(a readArgs, b []byte, most int, at string) (part []byte, notes []string, err error) {
	no := max(a.offset, 1)
	line, ok := lines(b, no, 1)
	switch {
	case !ok:
		return nil, nil, badInput(fmt.Sprintf("offset %d is beyond the end: %s has %d lines", no, quote(a.rel), text.Lines(b)), "")
	case a.byteOffset >= len(line):
		return nil, nil, badInput(fmt.Sprintf("byte_offset %d is beyond the end: line %d of %s has %d bytes", a.byteOffset, no, quote(a.rel), len(line)), "")
	}
	from, end := a.byteOffset, min(len(line), a.byteOffset+surelyFits(most)/2)
	for i := 0; i < utf8.UTFMax && from > 0 && !utf8.RuneStart(line[from]); i++ {
		from--
	}
	for i := 0; i < utf8.UTFMax && end < len(line) && !utf8.RuneStart(line[end]); i++ {
		end--
	}
	next := ""
	switch {
	case end < len(line):
		next = fmt.Sprintf(". next: read_file path=%s offset=%d byte_offset=%d%s", quote(a.rel), no, end, at)
	case text.Lines(b) > no:
		next = fmt.Sprintf(". next: read_file path=%s offset=%d%s", quote(a.rel), no+1, at)
	}
	return line[from:end], []string{fmt.Sprintf("[... line %d of %s: bytes %d-%d of %d%s]", no, quote(a.rel), from, end, len(line), next)}, nil
}

// explain adds what the agent can do next to the daemon's errors.
func (c *call) explain(rel string, err error) error {
	switch {
	case errors.Is(err, wire.ErrNotFound):
		if _, linked := c.s.target(rel); linked != nil {
			return linked
		}
		hint := ""
		if c.s.offers("search_history") {
			hint = "search_history path_filter=" + quote(rel) + " shows whether it ever existed"
		}
		if near := c.s.nearest(rel); near != "" {
			hint = "did you mean " + quote(near) + "?"
		}
		return wire.Errorf(wire.ErrNotFound, hint, "no such file: %s", quote(rel))
	case errors.Is(err, wire.ErrIsDir):
		if c.s.offers("ls") {
			return wire.Errorf(wire.ErrIsDir, "ls path="+quote(name(rel)), "%s is a directory", quote(name(rel)))
		}
		return isDir(rel)
	case errors.Is(err, wire.ErrBinary):
		return c.binary(rel)
	case errors.Is(err, wire.ErrOutside):
		return c.s.outside(rel)
	}
	return err
}

func isDir(rel string) error {
	return wire.Errorf(wire.ErrIsDir, "give the path of a file in it", "%s is a directory", quote(name(rel)))
}

func (c *call) binary(rel string) error {
	size := 0
	if root, err := os.OpenRoot(c.s.dir()); err == nil {
		defer root.Close()
		if fi, err := root.Stat(name(rel)); err == nil {
			size = int(fi.Size())
		}
	}
	return binary(rel, size)
}

func binary(rel string, size int) error {
	return wire.Errorf(wire.ErrBinary, "look at it with a tool for its kind of file", "%s is binary (%d bytes)", quote(rel), size)
}

const nonblock = syscall.O_NONBLOCK
