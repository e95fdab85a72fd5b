package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxTokens bounds one result. Claude Code moves results of more than 25,000 tokens to a file. The
// estimate can be 10 % too low, and each line of a page is rounded.
const maxTokens = 22_000

// maxTokensCodex is the bound for Codex, which silently cuts long results in the middle. Its limit
// depends on version and model and is at least 10,000 bytes. Texts usually have at most five bytes
// per token.
const maxTokensCodex = 2_000

// most returns the bound on one result for this client.
func (s *Server) most(ctx context.Context) int {
	if sess, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok && strings.HasPrefix(sess.GetClientInfo().Name, "codex") {
		return maxTokensCodex
	}
	return maxTokens
}

// surelyFits returns a size in bytes below which any text fits. The densest texts (hexadecimal,
// emoji) have two bytes per token.
func surelyFits(most int) int { return 2 * most }

// page is the part of a file that one result can hold.
type page struct {
	limit int  // number of lines; 0 means all requested ones
	next  int  // first line left out; 0 if none
	total int  // lines of the file; set only if next is set
	long  bool // the first line alone is too long
}

// pageKey identifies a page by file and stat. Pages are reused, because measuring a large file
// costs more than answering "unchanged". A wrong entry only makes a page too short or too long.
type pageKey struct {
	path          string
	offset, limit int
	most          int
	size          int64
	mtime         time.Time
}

const maxPages = 512

// page decides how many of the lines [offset, offset+limit) of rel to request from the daemon at
// once. Everything that the daemon sends counts as shown, so nothing may be cut off afterwards.
func (s *Server) page(rel string, offset, limit, most int) (page, error) {
	dir := s.dir()
	fi, err := os.Stat(filepath.Join(dir, rel))
	if err != nil || !fi.Mode().IsRegular() || fi.Size() <= int64(surelyFits(most)) {
		return page{}, nil // the read itself reports the error
	}
	key := pageKey{rel, offset, limit, most, fi.Size(), fi.ModTime()}
	p, ok := s.pages.Get(key)
	if ok {
		return p, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return page{}, fileError("", err)
	}
	defer root.Close()
	b, err := readAll(root, rel)
	if err != nil {
		return page{}, err
	}
	b, ok = text.Shown(b)
	if !ok {
		return page{}, nil
	}
	p = s.measure(b, offset, limit, most)
	s.pages.Put(key, p)
	return p, nil
}

func (s *Server) measure(b []byte, offset, limit, most int) page {
	first := max(offset, 1)
	line, used := 0, 0
	for rest := b; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		line++
		if line >= first && (limit == 0 || line < first+limit) {
			used += s.opt.Tokens(rest[:n])
			if used > most {
				total := line - 1 + text.Lines(rest)
				if line == first {
					return page{long: true, next: line + 1, total: total}
				}
				return page{limit: line - first, next: line, total: total}
			}
		}
		rest = rest[n:]
	}
	return page{}
}

// nextNote returns the note that says how to call for the next page.
func (p page) nextNote(rel string, offset int) string {
	if p.next == 0 || p.next > p.total {
		return ""
	}
	return fmt.Sprintf("[... lines %d-%d of %d. next: read_file path=%s offset=%d]", max(offset, 1), p.next-1, p.total, quote(rel), p.next)
}

// readAll reads a regular file of at most limits.Content bytes inside root.
func readAll(root *os.Root, rel string) ([]byte, error) {
	f, err := openRegular(root, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limits.Content+1))
	if err != nil {
		return nil, fileError(rel, err)
	}
	if len(b) > limits.Content {
		return nil, badInput(fmt.Sprintf("%s is larger than %d MiB", quote(rel), limits.Content>>20), "use a shell tool that reads a part of it")
	}
	return b, nil
}

// openRegular opens a regular file. It checks the type first, so that it never waits for a FIFO.
func openRegular(root *os.Root, rel string) (*os.File, error) {
	fi, err := root.Stat(name(rel))
	if err != nil {
		return nil, fileError(rel, err)
	}
	if err := regular(rel, fi); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name(rel), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, fileError(rel, err)
	}
	return f, nil
}

func regular(rel string, fi fs.FileInfo) error {
	switch {
	case fi.IsDir():
		return isDir(rel)
	case !fi.Mode().IsRegular():
		return badInput(quote(rel)+" is not a regular file", "")
	}
	return nil
}

// name returns rel in the form that os.Root wants, where the root is ".".
func name(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}

// tokensOf returns how many tokens a full read of rel costs, but no more than one page has. It returns
// 0 if the file cannot be read.
func (s *Server) tokensOf(rel string, most int) int {
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return 0
	}
	defer root.Close()
	fi, err := root.Stat(name(rel))
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	if fi.Size() > int64(8*most) {
		return most
	}
	b, err := readAll(root, rel)
	if err != nil {
		return 0
	}
	return min(s.opt.Tokens(b), most)
}

// outlineText lists a file's definitions with their lines, which is enough for a large file that
// the agent will not edit.
func (c *call) outlineText(ctx context.Context, rel string) (*mcp.CallToolResult, error) {
	var ans wire.OutlineAnswer
	if _, err := c.s.backend.ask(ctx, wire.MOutline, wire.OutlineRequest{Path: []byte(rel)}, nil, &ans); err != nil {
		return nil, c.explain(rel, err)
	}
	if len(ans.Symbols) == 0 {
		return textResult(fmt.Sprintf("[no definitions recognised · %d lines]", ans.Lines)), nil
	}
	line := func(s wire.OutlineSymbol) string {
		return fmt.Sprintf("%d-%d: %s\n", s.First, s.Last, clean(s.Signature))
	}
	head := fmt.Sprintf("[outline · %d definitions · %d lines]\n", len(ans.Symbols), ans.Lines)
	return textResult(head + fit(c.s, ans.Symbols, line, " definitions")), nil
}

// fit joins the lines of as many items as fit into one result. If items are left, the last line says
// how many, followed by the text in what.
func fit[T any](s *Server, items []T, lines func(T) string, what string) string {
	var b strings.Builder
	used := 0
	for i, it := range items {
		t := lines(it)
		used += s.opt.Tokens([]byte(t))
		if used > maxTokens-500 && i > 0 {
			fmt.Fprintf(&b, "[... %d more%s]\n", len(items)-i, what)
			break
		}
		b.WriteString(t)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// symbolRange returns the lines of the first definition of symbol. note names other definitions of
// that name.
func (c *call) symbolRange(ctx context.Context, rel, symbol string) (offset, limit int, note string, err error) {
	var ans wire.OutlineAnswer
	if _, err := c.s.backend.ask(ctx, wire.MOutline, wire.OutlineRequest{Path: []byte(rel), Symbol: symbol}, nil, &ans); err != nil {
		return 0, 0, "", c.explain(rel, err)
	}
	if len(ans.Symbols) == 0 {
		hint := "read_file with outline=true lists its definitions"
		if len(ans.Near) > 0 {
			hint = "did you mean " + clean(strings.Join(ans.Near[:min(5, len(ans.Near))], ", ")) + "?"
		}
		return 0, 0, "", badInput(quote(rel)+" defines no "+quote(symbol), hint)
	}
	s := ans.Symbols[0]
	note = fmt.Sprintf("[%s · lines %d-%d of %d]", clean(s.Signature), s.First, s.Last, ans.Lines)
	for _, other := range ans.Symbols[1:] {
		note += fmt.Sprintf("\n[also: %s · lines %d-%d]", clean(other.Signature), other.First, other.Last)
	}
	return s.First, s.Last - s.First + 1, note, nil
}

// hitID matches the ids that search prints instead of paths if compact is set.
var hitID = regexp.MustCompile(`^(fil|sym)-[0-9a-f]{8}$`)

// fetchable turns a hit's id into the path of its file. It returns a path unchanged.
func (c *call) fetchable(ctx context.Context, p string) string {
	if !hitID.MatchString(p) {
		return p
	}
	var ans wire.SearchAnswer
	if _, err := c.s.backend.ask(ctx, wire.MSearch, wire.SearchQuery{Pattern: p}, nil, &ans); err != nil || ans.How != wire.SearchID {
		return p
	}
	return string(ans.Hits[0].Path)
}

var summarizeTool = &tool{
	name: "summarize_session", title: "Session summary", reads: true, idempotent: true,
	desc: "Branch, files modified and read, what others changed, tokens saved.",
	handler: with(func(ctx context.Context, c *call, _ noArgs) (*mcp.CallToolResult, error) {
		session := c.s.session(c.conn)
		q := wire.SessionQuery{Session: session}
		var r wire.Recovery
		if _, err := c.s.backend.ask(ctx, wire.MRecovery, q, nil, &r); err != nil && !errors.Is(err, wire.ErrNotFound) {
			return nil, err
		}
		if !r.Known || len(r.Set.Files) == 0 {
			set, err := c.s.workingSet(ctx, c.conn)
			if err != nil {
				return nil, err
			}
			r.Metrics, err = c.s.metrics(ctx, wire.MetricsQuery{Session: session})
			if err != nil {
				return nil, err
			}
			r.Set = set
			r.Branch = cmp.Or(r.Branch, set.Branch)
		}
		return textResult(c.s.summary(r)), nil
	}),
}

func (s *Server) summary(r wire.Recovery) string {
	edited, read := 0, 0
	for _, f := range r.Set.Files {
		if f.Edits > 0 {
			edited++
		} else {
			read++
		}
	}
	var b strings.Builder
	if r.Branch != "" {
		fmt.Fprintf(&b, "branch %s\n", quote(r.Branch))
	}
	fmt.Fprintf(&b, "%d files modified, %d read", edited, read)
	if !r.Mounted {
		b.WriteString(" (not mounted: changes by other programs are seen when a file is read)")
	}
	if len(r.Set.Files) > 0 {
		b.WriteString("\n" + s.workingSetText(r.Set))
	}
	for i, c := range r.Changed {
		if i == 20 {
			fmt.Fprintf(&b, "\n[... %d more changed by others]", len(r.Changed)-20)
			break
		}
		fmt.Fprintf(&b, "\nchanged by others: %s", clean(c))
	}
	if r.Failed != "" {
		fmt.Fprintf(&b, "\nlast failing command: %s", clean(r.Failed))
	}
	fmt.Fprintf(&b, "\n%s", metricsText(r.Metrics))
	return b.String()
}
