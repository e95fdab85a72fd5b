package mcp

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
)

var syncCheckTool = &tool{
	name: "sync_check", title: "Stale documents", reads: true, idempotent: true,
	desc:    "Documents that are behind their code. With ref (a path, or a node of cachebro.yml): with the diffs.",
	handler: with(runSyncCheck),
}

var markSyncedTool = &tool{
	name: "mark_synced", title: "Mark as in sync", idempotent: true,
	desc:    "Marks the documents of ref as up to date: with the code as it is, or with the version that sync_check named.",
	handler: with(runMarkSynced),
}

// author returns the reader, with the session that is the best guess if the reader names none.
func (c *call) author() wire.Reader {
	r := c.reader
	r.Session = cmp.Or(r.Session, c.s.session(c.conn))
	return r
}

// maxDiffLines bounds the diff lines in one answer.
const maxDiffLines = 200

// docsRef fills in q for ref, which is a path in the project or the name of a group.
func (s *Server) docsRef(ref string, q *wire.DocsRequest) error {
	q.Name = ref
	rel, err := s.resolve(ref)
	if err != nil {
		return err
	}
	q.Path = []byte(rel)
	return nil
}

// syncCheckArgs are the arguments of sync_check.
type syncCheckArgs struct {
	Ref string `json:"ref"`
}

func runSyncCheck(ctx context.Context, c *call, a syncCheckArgs) (*mcp.CallToolResult, error) {
	q := wire.DocsRequest{Do: "check", Diff: a.Ref != ""}
	if a.Ref != "" {
		if err := c.s.docsRef(a.Ref, &q); err != nil {
			return nil, err
		}
	}
	var ans wire.DocsAnswer
	if _, err := c.s.backend.ask(ctx, wire.MDocs, q, nil, &ans); err != nil {
		return nil, err
	}
	return textResult(c.s.docsText(ans)), nil
}

// markSyncedArgs are the arguments of mark_synced.
type markSyncedArgs struct {
	Ref  string `json:"ref,required"`
	AsOf int    `json:"as_of"`
}

func runMarkSynced(ctx context.Context, c *call, a markSyncedArgs) (*mcp.CallToolResult, error) {
	if a.AsOf < 0 || strings.TrimSpace(a.Ref) == "" {
		return nil, badInput("ref is empty or as_of negative", "sync_check reports the values for both")
	}
	q := wire.DocsRequest{Do: "mark", AsOf: uint64(a.AsOf), Reader: c.author()}
	if err := c.s.docsRef(a.Ref, &q); err != nil {
		return nil, err
	}
	var ans wire.DocsAnswer
	if _, err := c.s.backend.ask(ctx, wire.MDocs, q, nil, &ans); err != nil {
		return nil, err
	}
	if len(ans.Pairs) == 0 {
		return nil, badInput("nothing to mark: "+quote(a.Ref)+" is in no pair, or all of its pairs were marked at a later version", "sync_check without ref lists the stale ones")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[in sync as of version %d]\n", ans.Seq)
	for _, p := range ans.Pairs {
		fmt.Fprintf(&b, "%s · %s (was %s)\n", quote(string(p.Doc)), quote(p.Code), p.State)
	}
	return textResult(strings.TrimSuffix(b.String(), "\n")), nil
}

// docsText lists the pairs that are not in sync, with as much of their diffs as one answer holds.
func (s *Server) docsText(a wire.DocsAnswer) string {
	var b strings.Builder
	for _, p := range a.Problems {
		fmt.Fprintf(&b, "[%s]\n", clean(p))
	}
	fmt.Fprintf(&b, "[%d of %d pairs of documents and code not in sync · as of version %d]\n", a.Stale+a.Missing, len(a.Pairs), a.Seq)
	used, lines := s.opt.Tokens([]byte(b.String())), 0
	for i, p := range a.Pairs {
		if p.State == "ok" {
			continue
		}
		t := pairText(p, &lines)
		used += s.opt.Tokens([]byte(t))
		if used > maxTokens-200 {
			fmt.Fprintf(&b, "[... %d more pairs. Narrow with ref]\n", len(a.Pairs)-i)
			break
		}
		b.WriteString(t)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pairText renders one pair. lines counts the diff lines shown so far.
func pairText(p wire.DocPair, lines *int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s · about %s (%s)", p.State, quote(string(p.Doc)), quote(p.Code), p.How)
	if p.Edited {
		b.WriteString(" · document edited since")
	}
	if p.Problem != "" {
		b.WriteString(" · " + clean(p.Problem))
	}
	b.WriteByte('\n')
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %s %s", c.What, quote(string(c.Path)))
		if c.What == "moved" {
			b.WriteString(" to " + quote(string(c.To)))
		}
		if fmt.Fprintf(&b, " +%d -%d", c.Added, c.Removed); c.First.Seq != 0 {
			fmt.Fprintf(&b, " · version %d %s by %s", c.First.Seq, stamp(c.First.Time), actor(c.First.Actor))
		}
		if c.Versions > 1 {
			fmt.Fprintf(&b, " · last %d by %s", c.Last.Seq, actor(c.Last.Actor))
		}
		if c.Lost {
			b.WriteString(" · its old content is no longer in the history")
		}
		b.WriteByte('\n')
		shown := 0
		for line := range strings.Lines(c.Diff) {
			if *lines++; *lines > maxDiffLines {
				fmt.Fprintf(&b, "[... diff truncated at %d lines]\n", maxDiffLines)
				break
			}
			b.WriteString(line)
			shown++
		}
		if shown > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

var noteTool = &tool{
	name: "note", title: "Note", idempotent: true,
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
	q := wire.NotesRequest{Do: "add", Text: a.Text, Kind: a.Kind, Reader: c.author()}
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
	return fit(s, notes, noteText, ". Narrow with kind or path")
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
