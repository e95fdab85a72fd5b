package history

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// LogCommand returns the command cachebro log.
func LogCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "log [PATH]", Short: "what changed, when, and who did it",
		Long: `Lists actions, newest first: each command, tool call or undo with its time and the files
that it changed, under the prompt that it belongs to. The number of an action is that of
its last version; show, diff, revert and undo accept it. For a single file, log lists its
versions instead, one per line, each with the process that wrote it. The history of a
file follows its renames and outlives its deletion.

--json prints versions, one object per line; with --actions it prints actions.
--machine all lists the versions of all machines that send to this project's bucket,
sorted by time, with the name of the machine before the number. --machine NAME shows what
that machine wrote. --machine ID shows the whole history with that id, which several
machines may have written, one after the other.`,
		Example: `  cachebro log -n 20
  cachebro log --stat               all files, and what started each action
  cachebro log src/main.go          one file; @N counts its versions
  cachebro log --since 10m -p       with diffs
  cachebro log --author sed         by process name, or agent
  cachebro log -f                   show new actions as they happen
  cachebro log --machine all --since 1h
  cachebro log --json | jq .path`,
		Args: e.Args(0, 1),
	}

	var f logFlags
	fs := cmd.Flags()
	fs.StringVar(&f.session, "session", "", "only this session (an id, or last)")
	fs.StringVar(&f.since, "since", "", "only after this time (12:40) or within this age (10m)")
	fs.StringVar(&f.until, "until", "", "only before this time or age")
	fs.StringVar(&f.author, "author", "", "only by this process name, pid, agent or tool")
	fs.StringVar(&f.op, "op", "", "only these operations, comma-separated: write,create,unlink,rename,…")
	fs.IntVarP(&f.limit, "limit", "n", 0, "at most this many (default: all)")
	fs.BoolVarP(&f.patch, "patch", "p", false, "show the changed lines")
	fs.BoolVar(&f.stat, "stat", false, "list all files of each action, and what started it")
	fs.BoolVarP(&f.follow, "follow", "f", false, "show new actions as they happen")
	fs.BoolVar(&f.versions, "versions", false, "list versions, one per line")
	fs.BoolVar(&f.actions, "actions", false, "list actions, also with --json or for a single file")
	fs.BoolVar(&f.lost, "lost", false, "only lost updates: a session wrote a file from an older version, and so dropped lines that others had added")
	fs.BoolVar(&f.oldest, "reverse", false, "oldest first")
	fs.BoolVar(&f.all, "all", false, "also actions without a net change, because they removed what they had made")
	fs.BoolVar(&f.baselines, "baselines", false, "also files as they were before the first recorded change")
	fs.BoolVar(&f.json, "json", false, "one JSON object per line")
	fs.BoolVarP(&f.z, "null", "z", false, "print only paths, unquoted, each followed by a NUL byte")
	outside := fs.Bool("outside", false, "changes by watched commands outside of projects (cachebro run)")
	machine := machines.Flag(fs)
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		var err error
		if f.limit < 0 {
			return e.Usagef("log: --limit %d is negative", f.limit)
		}
		if f.versions && (f.actions || f.stat || f.follow) {
			return e.Usagef("log: --versions cannot be combined with --actions, --stat or --follow")
		}
		q := wire.LogQuery{Session: f.session, Oldest: f.oldest, Baselines: f.baselines, Lost: f.lost}
		q.Since, err = e.TimeFlag("since", f.since, cli.First(args, "."))
		if err != nil {
			return err
		}
		q.Until, err = e.TimeFlag("until", f.until, cli.First(args, "."))
		if err != nil {
			return err
		}
		if f.op != "" {
			q.Ops = strings.Split(f.op, ",")
		}
		if *machine == machines.All {
			return logEverywhere(ctx, e, cli.First(args, "."), q, f)
		}
		open := func() (cli.Target, *wire.Client, machines.Part, error) {
			return machines.Open(ctx, e, *machine, cli.First(args, "."))
		}
		if *outside {
			open = func() (cli.Target, *wire.Client, machines.Part, error) {
				t, c, err := e.OpenOutside(ctx, cli.First(args, "/"))
				return t, c, nil, err
			}
		}
		t, c, part, err := open()
		if err != nil {
			return err
		}
		defer c.Close()
		q.Path, f.part = t.Rel, part
		if err := e.CheckKnown(ctx, c, t); err != nil {
			return err
		}
		f.actions = f.actions || f.stat || f.follow
		// The log of one file includes its baseline, so that @1 is in the list.
		if len(t.Rel) > 0 && !cli.IsDir(filepath.Join(t.Base(), string(t.Rel))) {
			q.Baselines = true
			f.versions = !f.actions
		}
		switch {
		case f.follow:
			return follow(ctx, e, c, q, f)
		case f.json && f.actions:
			return eachPage(ctx, e, c, f.query(q), f, f.limit, func(a wire.Actions) error {
				for _, x := range a.Actions {
					if err := printActionJSON(e, x); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if f.json || f.z {
			return eachVersion(ctx, e, c, q, f, func(v wire.Version, _ wire.LogAnswer) error {
				if f.z {
					_, err := fmt.Fprintf(e.Stdout, "%s\x00", v.Path)
					return err
				}
				return e.PrintJSON(cli.VersionObject(v))
			})
		}
		if f.versions || f.baselines {
			return e.Page(func(w io.Writer) error { return printLog(ctx, e, w, t, c, q, f) })
		}
		return e.Page(func(w io.Writer) error { return printStory(ctx, e, w, t, c, q, f) })
	})
}

const logPage = 1000

type logFlags struct {
	session, since, until, author, op string
	limit                             int
	patch, json, oldest, baselines, z bool
	stat, actions, versions           bool
	follow, lost, all                 bool

	part machines.Part // the part of the history that the machine of --machine wrote
}

// eachVersion requests versions page by page and calls do for each version. The first call for a
// page also passes the page itself. The other calls pass an empty LogAnswer.
func eachVersion(ctx context.Context, e *cli.Env, c *wire.Client, q wire.LogQuery, f logFlags, do func(wire.Version, wire.LogAnswer) error) error {
	left := f.limit
	for {
		q.Limit = logPage
		if f.limit > 0 && f.author == "" && f.part == nil {
			q.Limit = min(left, logPage)
		}
		looked := e.WatchTree(ctx, c)
		a, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, q)
		looked()
		if err != nil {
			return err
		}
		if q.Before == 0 && q.After == 0 {
			noteBehind(e, a.Behind)
		}
		page := a
		for _, v := range a.Versions {
			if f.oldest {
				q.After = v.Seq
			} else {
				q.Before = v.Seq
			}
			if f.author != "" && !v.Actor.Is(f.author) || !f.part.Has(v.Seq) {
				continue
			}
			if err := do(v, page); err != nil {
				return err
			}
			page = wire.LogAnswer{}
			if left--; f.limit > 0 && left == 0 {
				return nil
			}
		}
		if !a.More || len(a.Versions) == 0 {
			return nil
		}
	}
}
