package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/hooks/reshape"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// searchArgs are the arguments of search and grep.
type searchArgs struct {
	Pattern string   `json:"pattern,required" list:"lean"`
	Path    string   `json:"path"`
	Include patterns `json:"include"`
	Exclude patterns `json:"exclude"`
	Case    bool     `json:"case_sensitive"`
	Regex   bool     `json:"regex"`
	Kind    string   `json:"kind"`
	Limit   int      `json:"limit" unlisted:"20"`
	Compact bool     `json:"compact"`
	Mode    string   `json:"mode" list:"lean"`
}

var searchTool = &tool{
	name: "search", title: "Search", reads: true, idempotent: true,
	lean:    new("path; mode: regex|ranked|symbols|files|history"),
	desc:    "Find lines. mode: ranked|symbols|body|files|history",
	handler: with(runSearch),
}

// grepTool is search, under the name that models try first.
var grepTool = &tool{
	name: "grep", title: "Search", reads: true, idempotent: true,
	desc: "The same as search.", handler: with(runSearch),
}

const maxSearch = 1000

const modeRegex = "regex"

// searchModes maps the argument mode to the daemon's modes. "body" is a text search whose hits
// include the enclosing definitions.
var searchModes = map[string]string{
	"": wire.SearchText, "text": wire.SearchText, modeRegex: wire.SearchText, "exact": wire.SearchExact, "body": wire.SearchText, "ranked": wire.SearchRanked,
	"symbols": wire.SearchSymbols, "files": wire.SearchFiles, "history": wire.SearchHistory,
}

func runSearch(ctx context.Context, c *call, a searchArgs) (*mcp.CallToolResult, error) {
	mode, ok := searchModes[a.Mode]
	switch {
	case !ok:
		return nil, badInput("unknown mode "+quote(a.Mode), "modes are exact, regex, ranked, symbols, body, files, history")
	case a.Limit < 1 || a.Limit > maxSearch:
		return nil, badInput(fmt.Sprintf("limit %d is out of range", a.Limit), fmt.Sprintf("give 1 to %d", maxSearch))
	}
	rel := c.base
	if a.Path != "" {
		var err error
		rel, err = c.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		if real, err := c.s.target(rel); err == nil { // the daemon does not follow symlinks
			rel = real
		}
	}
	q := wire.SearchQuery{
		Pattern: a.Pattern, Mode: mode, Path: []byte(rel), Include: a.Include, Exclude: a.Exclude, CaseSensitive: a.Case, Regex: a.Regex || a.Mode == modeRegex,
		Kind: a.Kind, Limit: a.Limit, Body: a.Mode == "body" || mode == wire.SearchSymbols, Session: c.reader.Session,
	}
	var ans wire.SearchAnswer
	if _, err := c.s.backend.ask(ctx, wire.MSearch, q, nil, &ans); err != nil {
		return nil, err
	}
	if len(ans.Hits) == 0 && mode != wire.SearchHistory && a.Kind != "note" {
		if _, err := os.Lstat(filepath.Join(c.s.dir(), rel)); errors.Is(err, fs.ErrNotExist) {
			return nil, c.explain(rel, wire.ErrNotFound)
		}
	}
	out := c.s.searchText(q, ans, a.Compact)
	if !a.Compact {
		out = c.grouped(ctx, out)
	}
	if ans.NotSearched != "" {
		out += "\n[not searched: " + clean(ans.NotSearched) + "]"
	}
	return textResult(out), nil
}

// grouped prints each path once above its lines if that saves enough text.
func (c *call) grouped(ctx context.Context, hits string) string {
	r, ok := reshape.Matches(hits, true, reshape.Options{})
	if !ok {
		return hits
	}
	full, sent := int64(c.s.opt.Tokens([]byte(hits))), int64(c.s.opt.Tokens([]byte(r.Text)))
	c.s.spendLater(ctx, wire.Spend{Reader: c.reader, Tool: "output: " + string(r.Parts[0].Rule), Full: full, Sent: sent, Kind: "result"}, nil)
	return r.Text
}

// searchText renders as many hits as one result holds, one per line.
func (s *Server) searchText(q wire.SearchQuery, a wire.SearchAnswer, compact bool) string {
	var b strings.Builder
	if a.Warning != "" {
		fmt.Fprintf(&b, "[%s]\n", clean(a.Warning))
	}
	if len(a.Hits) == 0 {
		b.WriteString("no hits for " + quote(q.Pattern))
		if len(a.Suggest) > 0 {
			b.WriteString("; did you mean " + clean(strings.Join(a.Suggest, ", ")) + "?")
		}
		return b.String()
	}
	if by := q.NearestBy(a); by != "" {
		if len(a.Suggest) > 0 {
			fmt.Fprintf(&b, "[did you mean %s?]\n", clean(strings.Join(a.Suggest, ", ")))
		}
		fmt.Fprintf(&b, "[no line has this text; nearest by %s]\n", by)
	}
	used, shown := 0, 0
	for _, h := range a.Hits {
		line := hitText(h, compact, path.Base(s.opt.Root))
		used += s.opt.Tokens([]byte(line))
		if used > maxTokens-500 && shown > 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	if a.Truncated || shown < len(a.Hits) {
		fmt.Fprintf(&b, "[... %d of %s. Narrow with path, include or kind, or raise limit]\n", shown, a.Counts())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxHitLine bounds how many bytes of a long line are shown.
const maxHitLine = 400

func hitText(h wire.SearchHit, compact bool, project string) string {
	if compact {
		title := []rune(clean(strings.Join(strings.Fields(h.Title), " ")))
		if len(title) > 40 {
			title = append(title[:39], '…')
		}
		date := ""
		if !h.Time.IsZero() {
			date = h.Time.Local().Format("2006-01-02")
		}
		return fmt.Sprintf("  [%-8s] %-16s | %-40s | %-8s | %s | %.2f\n", h.Type, h.ID, string(title), project, date, h.Score)
	}
	if h.Note != nil {
		return noteText(*h.Note)
	}
	name, line := quote(string(h.Path)), visible.Controls(h.Around(maxHitLine))
	if len(h.Path) == 0 { // the hit is a session
		return clean(h.Title) + "\n" + h.Body
	}
	out := name + "\n"
	if h.Line > 0 {
		out = fmt.Sprintf("%s:%d: %s\n", name, h.Line, line)
	}
	if h.Past != nil {
		out += fmt.Sprintf("  %s: first seen in version %d (%s), last in %d (%s), removed in %d (%s, %s)\n", h.ID, h.Past.First.Seq, stamp(h.Past.First.Time),
			h.Past.Last.Seq, stamp(h.Past.Last.Time), h.Past.Gone.Seq, h.Past.Gone.Op, actor(h.Past.Gone.Actor))
	}
	if h.Body != "" {
		out += fmt.Sprintf("--- %s lines %d-%d\n%s---\n", name, h.Last-strings.Count(strings.TrimSuffix(h.Body, "\n"), "\n"), h.Last, visible.Controls(ended(h.Body)))
	}
	return out
}

func ended(s string) string {
	if strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}
