package hooks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"cachebro/hooks/clients"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// Bounds of the notes in the recovery block, in characters.
const (
	maxNote  = 240
	maxNotes = 1600
)

// notesSection lists as many notes as there is room for, one line each, most urgent first. more is
// the number of further notes, which are not in notes. Each line contains the note's id, with which
// the model can get the whole note.
func notesSection(notes []wire.Note, more int) string {
	if len(notes) == 0 {
		return ""
	}
	var b strings.Builder
	for i, n := range notes {
		line := noteLine(n)
		if used := utf16Len(b.String()) + utf16Len(line); used > maxNotes {
			more += len(notes) - i
			break
		}
		b.WriteString(line)
	}
	if more > 0 {
		fmt.Fprintf(&b, "- %d more: search with kind note\n", more)
	}
	return "\n### Notes\n" + b.String()
}

func noteLine(n wire.Note) string {
	about := ""
	if p := visible.ForModel(string(n.Path)); p != "" {
		about = " " + p
		if n.Gone {
			about += " (deleted)"
		}
	}
	text := clean(strings.Join(strings.Fields(n.Text), " "))
	if utf16Len(text) > maxNote {
		text = strings.TrimSpace(cutText(text, maxNote-1)) + "…"
	}
	return fmt.Sprintf("- %s [%s]%s: %s\n", clean(n.ID), clean(n.Kind), about, text)
}

// maxComments bounds the comments added to one prompt, in UTF-16 units, as the client counts. The
// other comments wait for the next prompt.
const maxComments = 6000

// comments returns the user's comments on lines that this session wrote, if they were not delivered
// yet. It claims each comment first, so that no other prompt delivers it too.
func (c *call) comments(ctx context.Context) (text string, ids []string) {
	if clients.TakesNoText(c.opt.client) {
		return "", nil
	}
	var a wire.CommentsAnswer
	if _, err := c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "pending", Session: c.session}, nil, &a); err != nil || len(a.Comments) == 0 {
		return "", nil
	}
	const head = "The user commented on lines that you wrote (in cachebro ui):\n"
	size, delivered := len(head), []string(nil)
	for _, x := range a.Comments {
		if !x.Claimed.IsZero() && c.modelGot(x.ID) {
			delivered = append(delivered, x.ID)
			continue
		}
		size += utf16Len(commentText(x))
		if len(ids) > 0 && size > maxComments {
			break
		}
		ids = append(ids, x.ID)
	}
	if len(delivered) > 0 {
		_, _ = c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "delivered", IDs: delivered}, nil, nil)
	}
	if len(ids) == 0 {
		return "", nil
	}
	// Claim the comments. The answer lacks comments that another prompt of this session has claimed.
	a = wire.CommentsAnswer{}
	if _, err := c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "claim", IDs: ids}, nil, &a); err != nil || len(a.Comments) == 0 {
		return "", nil
	}
	text, ids = head, nil
	for _, x := range a.Comments {
		text, ids = text+commentText(x), append(ids, x.ID)
	}
	return text, ids
}

// commentText renders one comment for the model. It contains the comment's id, because modelGot
// looks for the id in the transcript.
func commentText(x wire.Comment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- %s:%d (as of version %d; %s), the line %q:\n", visible.ForModel(string(x.Path)), x.Line, x.Seq, x.ID, visible.Line(x.Quote))
	for l := range strings.SplitSeq(x.Text, "\n") {
		b.WriteString("  " + clean(l) + "\n")
	}
	return b.String()
}

// delivered tells the daemon that comments were printed. It opens a new connection, because the
// handler's is closed.
func (c *call) delivered(ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), c.env.limit(workWithin))
	defer cancel()
	client, err := c.env.Dial(ctx, c.root)
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = client.Call(ctx, wire.MComments, wire.CommentsRequest{Do: "delivered", IDs: ids}, nil, nil)
}

// modelGot reports whether the client's transcript contains this id, so that the model got the comment.
// Transcripts of other clients cannot be read, so a comment may be delivered twice there.
func (c *scene) modelGot(id string) bool {
	f, err := os.Open(c.transcript)
	if c.opt.client != "" || err != nil {
		return false
	}
	defer f.Close()
	const piece = 1 << 20
	b, kept := make([]byte, piece+len(id)), 0
	for {
		n, err := io.ReadFull(f, b[kept:kept+piece])
		if bytes.Contains(b[:kept+n], []byte(id)) {
			return true
		}
		if err != nil { // end of the transcript
			return false
		}
		kept = copy(b, b[kept+n-len(id):kept+n])
	}
}
