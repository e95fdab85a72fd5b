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

// maxComments bounds what one prompt takes along, in characters of the client; the rest
// waits for the next.
const maxComments = 6000

// comments returns what a person said about lines that this session wrote and that it has not
// been told yet. Each is claimed first, and only what could be claimed is told.
func (c *call) comments(ctx context.Context) (text string, ids []string) {
	if clients.TakesNoText(c.opt.client) {
		return "", nil
	}
	var a wire.CommentsAnswer
	if _, err := c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "pending", Session: c.session}, nil, &a); err != nil || len(a.Comments) == 0 {
		return "", nil
	}
	const head = "The user commented on lines that you wrote (in cachebro ui):\n"
	size, told := len(head), []string(nil)
	for _, x := range a.Comments {
		if !x.Claimed.IsZero() && c.got(x.ID) {
			told = append(told, x.ID)
			continue
		}
		if size += utf16Len(commentText(x)); len(ids) > 0 && size > maxComments {
			break
		}
		ids = append(ids, x.ID)
	}
	if len(told) > 0 {
		_, _ = c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "delivered", IDs: told}, nil, nil)
	}
	if len(ids) == 0 {
		return "", nil
	}
	// Another prompt of this session may have been quicker with some of them.
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

// commentText is one comment as the model gets it. By its id the transcript shows later that
// it did.
func commentText(x wire.Comment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- %s:%d (as of version %d; %s), the line %q:\n", visible.Told(string(x.Path)), x.Line, x.Seq, x.ID, visible.Line(x.Quote))
	for l := range strings.SplitSeq(x.Text, "\n") {
		b.WriteString("  " + clean(l) + "\n")
	}
	return b.String()
}

// delivered says that comments were printed. The handler's connection is closed by now.
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

// got reports whether the client's transcript has this id, so that the model was told. Other
// clients' transcripts cannot be read, and there a comment may be told twice.
func (c *scene) got(id string) bool {
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
		if err != nil { // the end of the transcript
			return false
		}
		kept = copy(b, b[kept+n-len(id):kept+n])
	}
}
