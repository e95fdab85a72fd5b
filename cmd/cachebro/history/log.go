package history

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// LogCommand is cachebro log.
func LogCommand() cli.Command {
	return cli.Command{
		Name: "log", Group: cli.GroupEvery, Args: "[PATH]", Short: "what changed, when, and who did it",
		Long: `One line per version, newest first: its number (for show, diff and revert), time,
operation, size, process and pid, path, and the session and tool when they are
known. A file's history follows its renames and outlives its deletion.

Examples:
  cachebro log
  cachebro log src/main.go          one file; @N counts its versions
  cachebro log --since 10m -p       with diffs
  cachebro log --author sed         by process name, or agent
  cachebro log --json | jq .path`,
		Run: runLog,
	}
}

// logPage is how many versions are asked for at once.
const logPage = 1000

type logFlags struct {
	session, since, until, author, op string
	limit                             int
	patch, json, oldest, baselines, z bool
}

func runLog(ctx context.Context, e *cli.Env) error {
	var f logFlags
	fs := e.Flags()
	fs.StringVar(&f.session, "session", "", "only this session (an id, or last)")
	fs.StringVar(&f.since, "since", "", "only after this time (12:40) or within this age (10m)")
	fs.StringVar(&f.until, "until", "", "only before this time or age")
	fs.StringVar(&f.author, "author", "", "only by this process name, pid, agent or tool")
	fs.StringVar(&f.op, "op", "", "only these operations, comma-separated: write,create,unlink,rename,…")
	fs.IntVarP(&f.limit, "limit", "n", 0, "at most this many versions (default: all)")
	fs.BoolVarP(&f.patch, "patch", "p", false, "show what each version changed")
	fs.BoolVar(&f.oldest, "reverse", false, "oldest first")
	fs.BoolVar(&f.baselines, "baselines", false, "also what was there before the first change")
	fs.BoolVar(&f.json, "json", false, "one JSON object per line")
	fs.BoolVarP(&f.z, "null", "z", false, "print only paths, raw, each ended by a NUL")
	args, err := e.Parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return e.Usagef("log: --limit %d is negative", f.limit)
	}
	q := wire.LogQuery{Session: f.session, Oldest: f.oldest, Baselines: f.baselines}
	if q.Since, err = e.TimeFlag("since", f.since); err != nil {
		return err
	}
	if q.Until, err = e.TimeFlag("until", f.until); err != nil {
		return err
	}
	if f.op != "" {
		q.Ops = strings.Split(f.op, ",")
	}
	t, c, err := e.Open(ctx, cli.First(args, "."))
	if err != nil {
		return err
	}
	defer c.Close()
	q.Path = t.Rel
	// Of one file also what it was at first: @1 must be there to be named.
	if len(t.Rel) > 0 && !cli.IsDir(filepath.Join(t.Base(), string(t.Rel))) {
		q.Baselines = true
	}
	if f.json || f.z {
		return eachVersion(ctx, e, c, q, f, func(v wire.Version, _ wire.LogAnswer) error {
			if f.z {
				_, err := fmt.Fprintf(e.Stdout, "%s\x00", v.Path)
				return err
			}
			m, err := cli.VersionObject(v)
			if err != nil {
				return err
			}
			return e.PrintJSON(m)
		})
	}
	return e.Page(func(w io.Writer) error { return printLog(ctx, e, w, t, c, q, f) })
}

// eachVersion asks page by page. The page is given with its first version only.
func eachVersion(ctx context.Context, e *cli.Env, c *wire.Client, q wire.LogQuery, f logFlags, do func(wire.Version, wire.LogAnswer) error) error {
	left := f.limit
	for {
		q.Limit = logPage
		if f.limit > 0 && f.author == "" {
			q.Limit = min(left, logPage)
		}
		looked := e.WatchTree(ctx, c)
		a, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, q)
		looked()
		if err != nil {
			return err
		}
		page := a
		for _, v := range a.Versions {
			if f.oldest {
				q.After = v.Seq
			} else {
				q.Before = v.Seq
			}
			if f.author != "" && !by(v.Actor, f.author) {
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

// by: does the author match a process name, a pid, an agent or a tool?
func by(a wire.Actor, author string) bool {
	for _, s := range []string{a.Comm, a.Agent, a.Tool, fmt.Sprint(a.PID)} {
		if s != "" && strings.EqualFold(s, author) {
			return true
		}
	}
	return a.Session != "" && strings.HasPrefix(a.Session, author)
}
