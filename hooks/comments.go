package hooks

import (
	"context"
	"fmt"
	"strings"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// maxComments bounds what one prompt takes along, in characters of the client; the rest
// waits for the next.
const maxComments = 6000

// comments are what a person said about lines that this session wrote, and has not told
// it yet. They are marked as delivered first: what could not be marked is not told.
func (c *call) comments(ctx context.Context) string {
	var a wire.CommentsAnswer
	if _, err := c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "pending", Session: c.session}, nil, &a); err != nil || len(a.Comments) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("The user commented on lines that you wrote (in cachebro ui):\n")
	var ids []string
	for _, x := range a.Comments {
		one := fmt.Sprintf("- %s:%d (as of version #%d), the line %q:\n  %s\n", visible.Name(string(x.Path)), x.Line, x.Seq, visible.Line(x.Quote), strings.ReplaceAll(x.Text, "\n", "\n  "))
		if len(ids) > 0 && utf16Len(b.String())+utf16Len(one) > maxComments {
			break
		}
		b.WriteString(one)
		ids = append(ids, x.ID)
	}
	var done wire.CommentsAnswer
	if _, err := c.ask(ctx, wire.MComments, wire.CommentsRequest{Do: "delivered", IDs: ids}, nil, &done); err != nil || len(done.Comments) != len(ids) {
		return ""
	}
	return b.String()
}
