package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// ContextCommand returns the command cachebro docs context.
func ContextCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "context [REF]", Short: "show what belongs to a file, a directory or a group of cachebro.yml",
		Long: `Prints a bundle as JSON: summary, files, symbols, pieces of documents, newest versions,
and neighbours. Neighbours are files that REF imports or that import it, documents that
name it, and files that were read before it was written. REF is a file, a directory, or a
group of the project's cachebro.yml (default: the working directory). The bundle is cached
until something that it was made from changes.

With --session the bundle is printed as that session's agent would get it: if the agent
has seen the same bundle before, only a few lines or the differences.

  nodes:                         # cachebro.yml
    auth:
      summary: Login and sessions.
      source: [src/auth/, src/session.go]
      uses: [billing]`,
		Example: `  cachebro docs context src/auth/
  cachebro docs context auth --depth 1
  cachebro docs context --graph          # nodes and edges of the project`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	var q wire.ContextRequest
	fs.IntVar(&q.Depth, "depth", 0, "the greatest distance of a neighbour (default 2)")
	fs.BoolVar(&q.Force, "force", false, "print the full bundle, whatever the session has seen")
	fs.BoolVar(&q.Graph, "graph", false, "print nodes and edges around REF, or of the whole project without REF")
	fs.StringVar(&q.Reader.Session, "session", "", "who reads: a session's id")
	fs.StringVar(&q.Reader.Agent, "agent", "", "a sub-agent within the session")
	asJSON := fs.Bool("json", false, "print JSON that also tells how the request was answered")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if q.Depth < 0 {
			return e.Usagef("context: --depth cannot be negative")
		}
		t, c, err := e.Open(ctx, ".")
		if err != nil {
			return err
		}
		defer c.Close()
		q.Tool = "context"
		var a wire.ContextAnswer
		var text []byte
		for _, q.Ref = range nodeNames(e, t, cli.First(args, ""), q.Graph) {
			text, err = c.Call(ctx, wire.MContext, q, nil, &a)
			if !errors.Is(err, wire.ErrNotFound) {
				break
			}
		}
		if err != nil {
			return err
		}
		if *asJSON {
			m := cli.Object(a, nil)
			m["text"] = string(text)
			if json.Valid(text) {
				m["bundle"] = json.RawMessage(text)
				delete(m, "text")
			}
			return e.PrintJSON(m)
		}
		return printShown(e, a.ReadAnswer, text)
	})
}

// nodeNames returns the possible meanings of a typed reference: a path relative to the working
// directory, then the name of a group or a path relative to the project.
func nodeNames(e *cli.Env, t cli.Target, ref string, graph bool) []string {
	if ref == "" && graph && len(t.Rel) == 0 {
		return []string{""}
	}
	typed := cmp.Or(ref, ".")
	var names []string
	if abs, err := e.Abs(typed); err == nil {
		for _, base := range []string{t.Point, t.Root} {
			if rel, err := filepath.Rel(base, abs); base != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				if strings.HasSuffix(typed, "/") || rel == "." {
					rel += "/"
				}
				names = append(names, rel)
				break
			}
		}
	}
	if ref != "" && (len(names) == 0 || names[0] != ref) {
		names = append(names, ref)
	}
	return names
}
