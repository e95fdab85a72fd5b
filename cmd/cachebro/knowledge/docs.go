package knowledge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// CheckCommand returns the command cachebro docs check.
func CheckCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [PATH | GROUP]", Short: "list documents that may be out of date with the code",
		Long: `A document is paired with the code that it describes. The code is named in the docs
section of cachebro.yml, in a comment in the document (<!-- cachebro: documents
src/cache.go src/store/ -->, or "documents nothing"), or else in the document's text.
From then on any write to the code makes the pair stale, until the write is undone or
docs mark says that the document is true again. Editing the document is not enough.
After a git command that changes both sides, the pair is in sync.

PATH is a document, a file or a directory, and GROUP a node of cachebro.yml. The exit
status is 1 if a pair is stale or its code does not exist.`,
		Example: `  cachebro docs check
  cachebro docs check --diff docs/cache.md
  cachebro docs check --explicit --json | jq -r .doc
  cachebro docs check && git commit`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	q := wire.DocsRequest{Do: "check"}
	fs.BoolVar(&q.Diff, "diff", false, "also show what has changed in the code")
	fs.BoolVar(&q.Explicit, "explicit", false, "only pairs that cachebro.yml or a comment names")
	all := fs.Bool("all", false, "also list pairs that are in sync")
	quiet := fs.BoolP("quiet", "q", false, "print nothing; only set the exit status")
	asJSON := fs.Bool("json", false, "one JSON object per pair and line")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		t, c, err := docsProject(ctx, e, args)
		if err != nil {
			return err
		}
		defer c.Close()
		if len(args) > 0 {
			q.Path, q.Name = t.Rel, args[0]
		}
		a, err := wire.Call[wire.DocsAnswer](ctx, c, wire.MDocs, q)
		if err != nil {
			return err
		}
		for _, problem := range a.Problems {
			fmt.Fprintln(e.Stderr, "cachebro: "+cli.OneLine(problem))
		}
		for _, p := range a.Pairs {
			if *quiet || p.State == "ok" && !*all {
				continue
			}
			if *asJSON {
				err = printPairJSON(e, p, a.Seq)
			} else {
				err = printPair(e, p)
			}
			if err != nil {
				return err
			}
		}
		bad := a.Stale + a.Missing
		if !*asJSON && !*quiet {
			switch {
			case len(a.Pairs) == 0 && len(args) > 0:
				return cli.Hintf("cachebro docs check --all", "no document is paired with %s", cli.Quote(args[0]))
			case len(a.Pairs) == 0:
				fmt.Fprintln(e.Stderr, "no document names any code; cachebro help docs check says how to name it")
			default:
				fmt.Fprintf(e.Stderr, "%d of %s in sync as of version %d\n", len(a.Pairs)-bad, text.Count(len(a.Pairs), "pair"), a.Seq)
			}
		}
		if bad > 0 {
			return cli.ExitStatus(1)
		}
		return nil
	})
}

// MarkCommand returns the command cachebro docs mark.
func MarkCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mark PATH | GROUP…", Short: "mark documents as true again",
		Long: `Records that the documents describe the code as it is now. With --as-of they describe the
code of that version, which docs check prints; use this if somebody may have changed the
code since.`,
		Example: `  cachebro docs mark docs/cache.md
  cachebro docs mark --as-of 812 docs/cache.md
  cachebro docs mark --edited
  cachebro docs mark --all`,
		Args: e.Args(0, -1),
	}

	fs := cmd.Flags()
	q := wire.DocsRequest{Do: "mark", Reader: wire.Reader{Session: e.Session()}}
	fs.Uint64Var(&q.AsOf, "as-of", 0, "as of this version of the log (default: now)")
	fs.BoolVar(&q.Edited, "edited", false, "only pairs whose document was edited after the code")
	all := fs.Bool("all", false, "every pair")
	asJSON := fs.Bool("json", false, "one JSON object per pair and line")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		switch {
		case len(args) == 0 && !*all && !q.Edited:
			return e.Usagef("docs mark: name a document, its code or a group, or give --edited or --all")
		case len(args) > 0 && *all:
			return e.Usagef("docs mark: --all takes no names")
		}
		each := [][]string{nil}
		if len(args) > 0 {
			each = nil
			for _, arg := range args {
				each = append(each, []string{arg})
			}
		}
		for _, arg := range each {
			if err := markSynced(ctx, e, arg, q, *asJSON); err != nil {
				return err
			}
		}
		return nil
	})
}

// docsProject finds the project that contains the argument. If the argument is not a path but the
// name of a group, docsProject uses the project of the working directory.
func docsProject(ctx context.Context, e *cli.Env, args []string) (cli.Target, *wire.Client, error) {
	t, err := e.Locate(cli.First(args, "."))
	if err != nil && len(args) > 0 {
		t, err = e.Locate(".")
		t.Rel = []byte(strings.Trim(args[0], "/"))
	}
	if err != nil {
		return t, nil, err
	}
	c, err := e.Connect(ctx, t.Root)
	return t, c, err
}

func markSynced(ctx context.Context, e *cli.Env, arg []string, q wire.DocsRequest, asJSON bool) error {
	t, c, err := docsProject(ctx, e, arg)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(arg) > 0 {
		q.Path, q.Name = t.Rel, arg[0]
	}
	a, err := wire.Call[wire.DocsAnswer](ctx, c, wire.MDocs, q)
	if err != nil {
		return err
	}
	for _, p := range a.Pairs {
		if asJSON {
			err = printPairJSON(e, p, a.Seq)
		} else {
			_, err = fmt.Fprintf(e.Stdout, "%s is in sync with %s as of version %d (was %s)\n", cli.Quote(string(p.Doc)), cli.Quote(p.Code), a.Seq, p.State)
		}
		if err != nil {
			return err
		}
	}
	if len(a.Pairs) > 0 {
		return nil
	}
	if len(arg) > 0 && !q.Edited {
		return cli.Hintf("cachebro docs check --all", "nothing to mark, because %s has no pair or all its pairs were marked later", cli.Quote(arg[0]))
	}
	fmt.Fprintln(e.Stderr, "nothing to mark")
	return nil
}

func printPairJSON(e *cli.Env, p wire.DocPair, seq uint64) error {
	m := cli.Object(p, map[string][]byte{"doc": p.Doc})
	var changes []map[string]any
	for _, c := range p.Changes {
		change := cli.Object(c, map[string][]byte{"path": c.Path, "to": c.To})
		for name, v := range map[string]wire.Version{"first": c.First, "last": c.Last} {
			delete(change, name)
			if v.Seq != 0 {
				change[name] = cli.VersionObject(v)
			}
		}
		changes = append(changes, change)
	}
	m["seq"] = seq
	if delete(m, "changes"); len(changes) > 0 {
		m["changes"] = changes
	}
	return e.PrintJSON(m)
}

// printPair prints a pair, followed by what has changed and who changed it.
func printPair(e *cli.Env, p wire.DocPair) error {
	c, now := e.Paint(), e.Now()
	state := map[string]string{"ok": c.Green("ok     "), "stale": c.Red("stale  "), "missing": c.Yellow("missing")}[p.State]
	line := fmt.Sprintf("%s %s: %s %s", state, cli.Quote(string(p.Doc)), cli.Quote(p.Code), c.Dim("("+p.How+")"))
	if p.Edited {
		line += c.Yellow(" document edited since")
	}
	if p.Problem != "" {
		line += c.Yellow(" " + cli.OneLine(p.Problem))
	}
	_, err := fmt.Fprintln(e.Stdout, line)
	for _, ch := range p.Changes {
		name := cli.Quote(string(ch.Path))
		if ch.What == "moved" {
			name += " to " + cli.Quote(string(ch.To))
		}
		at := "no longer in the log"
		if ch.First.Seq != 0 {
			at = fmt.Sprintf("version %d %s by %s", ch.First.Seq, cli.Stamp(ch.First.Time, now), cli.Who(ch.First.Actor))
			if ch.Versions > 1 {
				at += fmt.Sprintf(", last %d by %s", ch.Last.Seq, cli.Who(ch.Last.Actor))
			}
		}
		lines := fmt.Sprintf("+%d -%d", ch.Added, ch.Removed)
		if ch.Lost {
			lines = "its old content is no longer in the history"
		}
		_, werr := fmt.Fprintf(e.Stdout, "        %s %s %s  %s\n", ch.What, name, lines, c.Dim(at))
		err = errors.Join(err, werr)
		if ch.Diff != "" {
			for l := range strings.Lines(ch.Diff) {
				_, werr = fmt.Fprintln(e.Stdout, lineText(strings.TrimSuffix(l, "\n")))
				err = errors.Join(err, werr)
			}
		}
	}
	return err
}
