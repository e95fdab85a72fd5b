package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

var noteTool = &tool{
	name: "note", title: "Note", profile: ProfileAll, idempotent: true,
	desc:    "Save a note (kind: decision, warning, todo, …) for later sessions; without text: list them. search kind=note finds them.",
	handler: with(runNote),
}

// noteArgs are the arguments of note.
type noteArgs struct {
	Text string `json:"text"`
	Kind string `json:"kind"`
	Path string `json:"path" doc:"what it is about"`
}

func runNote(ctx context.Context, c *call, a noteArgs) (*mcp.CallToolResult, error) {
	q := wire.NotesRequest{Do: "add", Text: a.Text, Kind: a.Kind, Reader: c.reader}
	if q.Reader.Session == "" {
		q.Reader.Session = c.s.session(c.conn)
	}
	if strings.TrimSpace(a.Text) == "" {
		q.Do = "list"
	}
	if a.Path != "" {
		rel, err := c.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		q.Path = []byte(rel)
	}
	var ans wire.NotesAnswer
	if _, err := c.s.backend.ask(ctx, wire.MNotes, q, nil, &ans); err != nil {
		return nil, err
	}
	switch {
	case q.Do == "list":
		return textResult(c.s.notesText(ans.Notes)), nil
	case len(ans.Notes) != 1:
		return nil, fmt.Errorf("the store returned %d notes instead of one", len(ans.Notes))
	case !ans.Added:
		return textResult("already noted as " + clean(ans.Notes[0].ID)), nil
	}
	return textResult("noted as " + clean(ans.Notes[0].ID)), nil
}

// notesText lists as many notes as fit into one result.
func (s *Server) notesText(notes []wire.Note) string {
	if len(notes) == 0 {
		return "no notes"
	}
	var b strings.Builder
	used := 0
	for i, n := range notes {
		t := noteText(n)
		if used += s.opt.Tokens([]byte(t)); used > maxTokens-200 && i > 0 {
			fmt.Fprintf(&b, "[... %d more. Narrow with kind or path]\n", len(notes)-i)
			break
		}
		b.WriteString(t)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// noteText renders a note for a model: kind and path on the first line, then the indented text, so
// that no line of it looks like another note.
func noteText(n wire.Note) string {
	head := fmt.Sprintf("%s [%s]", clean(n.ID), clean(n.Kind))
	if len(n.Path) > 0 {
		head += " " + quote(string(n.Path))
	}
	switch {
	case n.Gone:
		head += " (deleted)"
	case len(n.Was) > 0:
		head += " (was " + quote(string(n.Was)) + ")"
	}
	var b strings.Builder
	b.WriteString(head + " · " + stamp(n.Time) + "\n")
	for line := range strings.SplitSeq(n.Text, "\n") {
		b.WriteString("  " + clean(line) + "\n")
	}
	return b.String()
}
