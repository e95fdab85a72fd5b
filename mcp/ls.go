package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/wire"
)

// lsArgs are the arguments of ls.
type lsArgs struct {
	Path      string `json:"path" default:"."`
	Recursive bool   `json:"recursive" default:"true"`
	Offset    int    `json:"offset" doc:"first item, from 1"`
}

var lsTool = &tool{
	name: "ls", title: "List directory", reads: true, idempotent: true,
	desc: "Files below path, one a line; a recursive listing leaves out what git ignores. A repeat gives [unchanged] or what was added and removed.",
	handler: with(func(ctx context.Context, c *call, a lsArgs) (*mcp.CallToolResult, error) {
		if a.Offset < 0 {
			return nil, badInput("offset is negative", "items are counted from 1")
		}
		rel, err := c.resolve(a.Path)
		if err != nil {
			return nil, err
		}
		items, err := c.s.list(ctx, rel, a.Recursive)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			if a.Recursive {
				return textResult(quote(name(rel)) + " contains no files"), nil
			}
			return textResult(quote(name(rel)) + " is empty"), nil
		}
		first := max(a.Offset, 1)
		if first > len(items) {
			return nil, badInput(fmt.Sprintf("offset %d is beyond the end: %d items", first, len(items)), "")
		}
		part, next := c.s.listPage(items, first)
		body := strings.Join(part, "\n") + "\n"
		if first > 1 || next > 0 {
			// A page is sent without comparison, because only a complete listing can be reported as
			// unchanged.
			t := strings.TrimSuffix(body, "\n")
			if next > 0 {
				t += fmt.Sprintf("\n[... items %d-%d of %d. next: ls path=%s offset=%d]", first, next-1, len(items), quote(name(rel)), next)
			}
			c.bookListing(ctx, listingKey(rel, a.Recursive), t)
			return textResult(t), nil
		}
		return textResult(c.decideListing(ctx, rel, a.Recursive, body)), nil
	}),
}

// decideListing asks the daemon to compare the listing with what this reader was shown. Without an
// answer, the whole listing is sent.
func (c *call) decideListing(ctx context.Context, rel string, recursive bool, body string) string {
	key := listingKey(rel, recursive)
	req := wire.ReadRequest{Reader: c.reader, Path: []byte(key), Tool: "ls", Listing: true,
		Force: c.wasUnknown("ls:" + key), Small: c.small(1), Pending: c.reader.ToolUse != ""}
	var ans wire.ReadAnswer
	out, err := c.s.backend.try(ctx, readWait, wire.MRead, req, []byte(body), &ans)
	if err != nil {
		c.bookListing(ctx, key, body)
		return body
	}
	if ans.Kind == wire.ReadFull {
		c.sentWhole("ls:" + key)
	}
	return compose(ans, out).text
}

// listingKey returns the name under which the daemon records a listing.
func listingKey(rel string, recursive bool) string {
	if recursive {
		return name(rel)
	}
	return name(rel) + "/."
}

// bookListing records the tokens of a listing that was sent whole, without savings. It does not count
// as shown.
func (c *call) bookListing(ctx context.Context, key, sent string) {
	c.sentUnknown("ls:" + key)
	n := int64(c.s.opt.Tokens([]byte(sent)))
	c.s.spendLater(ctx, wire.Spend{Reader: c.reader, Tool: "ls", Full: n, Sent: n, Kind: "result", Answer: wire.ReadFull}, nil)
}

// listPage returns the items from first (1-based) on that fit into one result. next is the first
// item that does not, or 0.
func (s *Server) listPage(items []string, first int) (part []string, next int) {
	used := 0
	for i := first - 1; i < len(items); i++ {
		used += s.opt.Tokens([]byte(items[i])) + 1
		if used > maxTokens-100 && i >= first {
			return items[first-1 : i], i + 1
		}
	}
	return items[first-1:], 0
}

// list returns the names below rel, relative to it and sorted by bytes. Directories end in a slash.
func (s *Server) list(ctx context.Context, rel string, recursive bool) ([]string, error) {
	target, err := s.target(rel)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir())
	if err != nil {
		return nil, fileError("", err)
	}
	defer root.Close()
	fi, err := root.Stat(name(target))
	if err != nil {
		return nil, fileError(rel, err)
	}
	if !fi.IsDir() {
		return nil, badInput(quote(rel)+" is not a directory", "read_file gives a file's text")
	}
	var items []string
	if recursive {
		items, err = s.gitFiles(ctx, target)
		if err != nil || len(items) == 0 { // git lists nothing in a directory that it ignores
			items, err = walk(ctx, root, target)
		}
	} else {
		items, err = entries(root, target)
	}
	if err != nil {
		return nil, err
	}
	for i, it := range items {
		items[i] = quote(it)
	}
	slices.Sort(items)
	return items, nil
}

// gitFiles asks git, which knows all ignore rules, for the files that are tracked or not ignored.
func (s *Server) gitFiles(ctx context.Context, rel string) ([]string, error) {
	dir := path.Join(s.dir(), rel)
	cmd := gitdir.Command(ctx, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var items []string
	for f := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if f == "" {
			continue
		}
		// The index also has files that were deleted from the tree.
		if _, err := os.Lstat(path.Join(dir, f)); err == nil {
			items = append(items, f)
		}
	}
	return items, nil
}

// walk lists a tree without asking git.
func walk(ctx context.Context, root *os.Root, rel string) ([]string, error) {
	var items []string
	err := fs.WalkDir(root.FS(), name(rel), func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		below, _ := relativeTo(p, name(rel))
		if rel == "" && p != "." {
			below = p
		}
		switch {
		case err != nil && below == "":
			return err
		case err != nil:
			return fs.SkipDir // unreadable, or deleted in the meantime
		case d.IsDir() && below != "" && (d.Name() == ".git" || ignore.CanBeRebuilt(d.Name())):
			return fs.SkipDir
		case !d.IsDir():
			items = append(items, below)
		}
		return nil
	})
	if err != nil && !errors.Is(err, ctx.Err()) {
		err = fileError(rel, err)
	}
	return items, err
}

func entries(root *os.Root, rel string) ([]string, error) {
	d, err := root.Open(name(rel))
	if err != nil {
		return nil, fileError(rel, err)
	}
	defer d.Close()
	list, err := d.ReadDir(-1)
	if err != nil {
		return nil, fileError(rel, err)
	}
	items := make([]string, len(list))
	for i, e := range list {
		items[i] = e.Name()
		if e.IsDir() {
			items[i] += "/"
		}
	}
	return items, nil
}
