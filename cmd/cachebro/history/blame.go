package history

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// BlameCommand returns the command cachebro blame.
func BlameCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "blame PATH[@VERSION]", Short: "who wrote each line of a file: process, session, prompt",
		Long: `Prints each line of the file with the number of the version that wrote the line (for
show and diff), the time, the process, the session and tool call if they are known, and
the text. Lines that existed before the first recorded change are marked "found there".`,
		Example: `  cachebro blame src/main.go
  cachebro blame src/main.go@12:40
  cachebro blame --json src/main.go | jq .prompt`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	asJSON := fs.Bool("json", false, "one JSON object per line")
	machine := machines.Flag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		path, q, err := e.SplitVersion(args[0])
		if err != nil {
			return err
		}
		if path == "" {
			return e.Usagef("blame: a path is missing before %s", cli.Quote(args[0]))
		}
		t, c, part, err := machines.Open(ctx, e, *machine, path)
		if err != nil {
			return err
		}
		defer c.Close()
		if len(t.Rel) == 0 {
			return cli.Hintf("cachebro log "+cli.Arg(path), "%s is the project directory, not a file", cli.Quote(path))
		}
		q.Path = t.Rel
		if _, err := part.Newest(ctx, c, &q); err != nil {
			return err
		}
		var a wire.BlameAnswer
		text, err := c.Call(ctx, wire.MBlame, q, nil, &a)
		if err != nil {
			return err
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		if len(lines) < len(a.Lines) {
			return fmt.Errorf("blame %s: the daemon sent %d lines, but the writers of %d", cli.Quote(path), len(lines), len(a.Lines))
		}
		if *asJSON {
			for i, k := range a.Lines {
				m := cli.VersionObject(a.Versions[k])
				m["line"], m["text"] = i+1, strings.ToValidUTF8(string(bytes.TrimRight(lines[i], "\r\n")), "\uFFFD")
				if err := e.PrintJSON(m); err != nil {
					return err
				}
			}
			return nil
		}
		return e.Page(func(w io.Writer) error { return printBlame(e, w, a, lines) })
	})
}

// printBlame prints each line after a column that describes its version. The column is empty if the
// previous line has the same version.
func printBlame(e *cli.Env, w io.Writer, a wire.BlameAnswer, lines [][]byte) error {
	p := e.Paint()
	heads, width := make([]string, len(a.Versions)), 0
	for i, v := range a.Versions {
		author := cli.Who(v.Actor)
		if v.Op == "baseline" {
			author = "found there"
		}
		heads[i] = fmt.Sprintf("%-6d %s %s %s", v.Seq, cli.Stamp(v.Time, e.Now()), author, cli.Whose(v.Actor))
		heads[i] = strings.TrimRight(heads[i], " ")
		width = max(width, len([]rune(heads[i])))
	}
	for i, k := range a.Lines {
		head := heads[k]
		if i > 0 && a.Lines[i-1] == k {
			head = ""
		}
		pad := strings.Repeat(" ", width-len([]rune(head)))
		if _, err := fmt.Fprintf(w, "%s%s %5d  %s\n", p.Dim(head), pad, i+1, cli.OneLine(strings.ReplaceAll(string(bytes.TrimRight(lines[i], "\r\n")), "\t", "    "))); err != nil {
			return err
		}
	}
	return nil
}
