package mcp

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

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
	var b strings.Builder
	fmt.Fprintf(&b, "[outline · %d definitions · %d lines]\n", len(ans.Symbols), ans.Lines)
	used := 0
	for i, s := range ans.Symbols {
		line := fmt.Sprintf("%d-%d: %s\n", s.First, s.Last, clean(s.Signature))
		if used += c.s.opt.Tokens([]byte(line)); used > maxTokens-500 {
			fmt.Fprintf(&b, "[... %d more definitions]\n", len(ans.Symbols)-i)
			break
		}
		b.WriteString(line)
	}
	return textResult(strings.TrimSuffix(b.String(), "\n")), nil
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

// hitID matches what search prints instead of a path in its compact form.
var hitID = regexp.MustCompile(`^(fil|sym)-[0-9a-f]{8}$`)

// fetchable turns a hit's id into its file's path. Anything else is a path.
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
