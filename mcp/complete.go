package mcp

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// pathCompletions completes the path of cachebro://history/{+path}, directory by directory.
type pathCompletions struct{ s *Server }

// maxCompletions is the protocol's own limit.
const maxCompletions = 100

func (p pathCompletions) CompleteResourceArgument(_ context.Context, uri string, arg mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	none := &mcp.Completion{Values: []string{}}
	if arg.Name != "path" || !strings.HasPrefix(uri, uriHistory) {
		return none, nil
	}
	dir, prefix := path.Split(arg.Value)
	rel := ""
	if dir != "" {
		var err error
		rel, err = p.s.resolve(dir)
		if err != nil {
			return none, nil
		}
	}
	root, err := os.OpenRoot(p.s.dir())
	if err != nil {
		return none, nil
	}
	defer root.Close()
	items, err := entries(root, rel)
	if err != nil {
		return none, nil
	}
	var found []string
	for _, it := range items {
		if strings.HasPrefix(it, prefix) && it != ".git/" && quote(it) == it {
			found = append(found, dir+it)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return none, nil
	}
	n := min(len(found), maxCompletions)
	return &mcp.Completion{Values: found[:n], Total: len(found), HasMore: len(found) > n}, nil
}
