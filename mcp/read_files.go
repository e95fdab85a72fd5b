package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/wire"
)

// maxPaths bounds one call. More paths never fit into a result.
const maxPaths = 200

// readFilesArgs are the arguments of read_files.
type readFilesArgs struct {
	Paths []string `json:"paths,required"`
}

var readFilesTool = &tool{
	name: "read_files", title: "Read files", reads: true, idempotent: true,
	desc: "read_file for several paths.",
	handler: with(func(ctx context.Context, c *call, a readFilesArgs) (*mcp.CallToolResult, error) {
		switch {
		case len(a.Paths) == 0:
			return nil, badInput("paths is empty", "give at least one path")
		case len(a.Paths) > maxPaths:
			return nil, badInput(fmt.Sprintf("%d paths are too many", len(a.Paths)), fmt.Sprintf("give at most %d at a time", maxPaths))
		}
		var out strings.Builder
		budget, failed := c.s.most(ctx), 0
		for i, p := range a.Paths {
			one := c.forPath(p)
			if i > 0 && budget < one.atMost(ctx, p) {
				fmt.Fprintf(&out, "[... %d of %d files left out, the limit is %d tokens. next: read_files paths=[%s]]\n",
					len(a.Paths)-i, len(a.Paths), c.s.most(ctx), strings.Join(quoteAll(a.Paths[i:]), ", "))
				break
			}
			block, err := one.block(ctx, p, len(a.Paths)-1)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				failed++
				block = "error: " + clean(err.Error())
				if h := wire.Hint(err); h != "" {
					block += "\nhint: " + clean(h)
				}
			}
			fmt.Fprintf(&out, "=== %s ===\n%s", quote(p), block)
			if !strings.HasSuffix(block, "\n") {
				out.WriteByte('\n')
			}
			budget -= c.s.opt.Tokens([]byte(block))
			c.progress(ctx, i+1, len(a.Paths), "read "+quote(p))
		}
		res := textResult(out.String())
		res.IsError = failed == len(a.Paths)
		return res, nil
	}),
}

// block reads one of several files. others is the number of the others.
func (c *call) block(ctx context.Context, p string, others int) (string, error) {
	rel, err := c.resolve(p)
	if err != nil {
		return "", err
	}
	t, err := c.read(ctx, readArgs{rel: rel, others: others})
	if err != nil {
		return "", err
	}
	for _, n := range t.notes {
		if !strings.HasSuffix(t.text, "\n") {
			t.text += "\n"
		}
		t.text += n
	}
	return t.text, nil
}

// atMost returns how many tokens a read of p can cost. That must be known before asking the daemon,
// because its whole answer counts as shown.
func (c *call) atMost(ctx context.Context, p string) int {
	rel, err := c.resolve(p)
	if err != nil {
		return 0
	}
	return c.s.tokensOf(rel, c.s.most(ctx))
}

func quoteAll(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = fmt.Sprintf("%q", p)
	}
	return out
}
