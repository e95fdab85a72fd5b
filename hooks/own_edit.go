package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"cachebro/store/wire"
)

// ownEdit tells the daemon which lines the model supplied through the client's Edit or Write, so
// that its own edit is not reported to it as a change. The new text is computed from the client's
// report, not read from the file. If something else was written too, the hashes differ and nothing
// is recorded.
func (c *call) ownEdit(ctx context.Context) {
	path, ok := c.relative(c.input.str("file_path"))
	if !ok || c.toolUse == "" {
		return
	}
	e := wire.OwnEdit{Reader: c.reader(), Path: []byte(path), Tool: c.tool}
	var after string
	switch c.tool {
	case "Edit":
		before := c.response.str("originalFile")
		e.Old, e.New, e.All = c.response.str("oldString"), c.response.str("newString"), c.response.truth("replaceAll")
		if before == "" || e.Old == "" || c.response.truth("userModified") {
			return
		}
		n := 1
		if e.All {
			n = -1
		} else if strings.Count(before, e.Old) != 1 {
			return
		}
		after = strings.Replace(before, e.Old, e.New, n)
		sum := sha256.Sum256([]byte(before))
		e.Before = hex.EncodeToString(sum[:])
	case "Write":
		after = c.response.str("content")
		if after == "" || after != c.input.str("content") || c.response.truth("userModified") {
			return
		}
		e.New = after
	default:
		return
	}
	_, _ = c.ask(ctx, wire.MOwnEdit, e, []byte(after), nil)
}
