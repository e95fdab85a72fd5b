package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/machines"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// ShowCommand returns the command cachebro show.
func ShowCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [NAME:]PATH[@VERSION] | NUMBER", Short: "print an earlier content of a file",
		Long: `Writes the exact content of a version to standard output. VERSION counts the versions of
the file (@3 is its third), counts back from the newest (@-1), or is a time (@12:40,
@10m). NUMBER is a number of the log. Without a version, the newest one is printed.
NAME:PATH is the file in the history of another machine, as with --machine NAME. For a
local file whose name has a colon, write ./NAME:PATH.`,
		Example: `  cachebro show src/main.go@-1
  cachebro show src/main.go@12:40 > main.go.old
  cachebro show 812
  cachebro show build-7:src/main.go@3`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	dir := fs.String("dir", ".", "the project that NUMBER belongs to")
	machine := machines.Flag(fs)
	asJSON := fs.Bool("json", false, "print the facts about the version instead of its content")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		path, q, err := e.SplitVersion(args[0])
		if err != nil {
			return err
		}
		if *machine == "" {
			*machine, path = machines.Split(e, path)
		}
		if path == "" && q.Seq == 0 {
			return e.Usagef("show: a path is missing before %s", cli.Quote(args[0]))
		}
		where := *dir
		if path != "" {
			where = path
		}
		t, c, part, err := machines.Open(ctx, e, *machine, where)
		if err != nil {
			return err
		}
		defer c.Close()
		if path != "" {
			q.Path = t.Rel
			if len(t.Rel) == 0 {
				return cli.Hintf("cachebro log "+cli.Arg(path), "%s is the project directory, not a file", cli.Quote(path))
			}
		}
		if _, err := part.Newest(ctx, c, &q); err != nil {
			return err
		}
		var v wire.Version
		content, err := c.Call(ctx, wire.MShow, q, nil, &v)
		if err != nil {
			return err
		}
		if *asJSON {
			return e.PrintJSON(cli.VersionObject(v))
		}
		if len(v.Target) > 0 {
			content = append(v.Target, '\n')
		} else if v.NoContent != "" {
			return cli.Hintf("cachebro log "+cli.Arg(string(v.Path)), "version %d of %s has no content: %s", v.Seq, cli.Quote(string(v.Path)), v.NoContent)
		}
		_, err = e.Stdout.Write(content)
		return err
	})
}

// DiffCommand returns the command cachebro diff.
func DiffCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff [NUMBER [NUMBER]] [[NAME:]PATH[@VERSION]]", Short: "what changed between two versions or moments",
		Long: `Prints a unified diff that patch and git apply understand. Without --from, the diff begins
at the version before the newest one; without --to, it ends at the file as it is now. For
a directory or the whole project give --since, or one or two numbers of the log: the diff
then shows what changed after the first number, up to the second or up to now.
NAME:PATH compares the file in the history of another machine (its newest version, or
NAME:PATH@VERSION) with this machine's file. With --machine NAME both sides are from that
machine.`,
		Example: `  cachebro diff src/main.go
  cachebro diff src/main.go --from @3 --to -1
  cachebro diff --since 10m
  cachebro diff --since 10m --stat
  cachebro diff 856 860 src
  cachebro diff build-7:src/main.go`,
		Args: e.Args(0, 3),
	}

	fs := cmd.Flags()
	from := fs.String("from", "", "a number of the log, a version of the file (@3, -1), a time or an age")
	to := fs.String("to", "", "a number of the log, a version of the file (@3, -1), a time or an age")
	since := fs.String("since", "", "changes after this time (12:40) or within this age (10m), also for many files")
	stat := fs.Bool("stat", false, "with --since: list only the files, with line counts and who changed each last")
	lines := fs.IntP("unified", "U", 3, "lines of context")
	machine := machines.Flag(fs)
	asJSON := fs.Bool("json", false, "print counts and the diff as JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		var err error
		numbers := false // whether from and to are numbers of the log; these mean moments, even for a single file
		if *from == "" && *to == "" {
			for _, moment := range []*string{from, to} {
				if len(args) == 0 {
					break
				}
				if _, ok := e.Number(args[0]); !ok {
					break
				}
				*moment, args = args[0], args[1:]
				numbers = true
			}
		}
		if *since != "" && numbers {
			return e.Usagef("diff: give numbers or --since, not both")
		}
		if *since != "" && *from+*to != "" {
			return e.Usagef("diff: give --since, or --from and --to, not both")
		}
		if len(args) > 1 {
			return e.Usagef("diff: unexpected argument %s: only one path at a time", cli.Quote(args[1]))
		}
		var q wire.DiffQuery
		path := cli.First(args, ".")
		q.From, err = e.VersionFlag("from", *from, path)
		if err != nil {
			return err
		}
		q.To, err = e.VersionFlag("to", *to, path)
		if err != nil {
			return err
		}
		q.Since, err = e.TimeFlag("since", *since, path)
		if err != nil {
			return err
		}
		q.Context = *lines
		if *machine == "" && len(args) > 0 {
			path, v, err := e.SplitVersion(args[0])
			if err != nil {
				return err
			}
			if name, path := machines.Split(e, path); name != "" {
				if *from != "" || *to != "" || !q.Since.IsZero() {
					return e.Usagef("diff: for %s give the version after an @, not by --from, --to or --since", cli.Quote(args[0]))
				}
				return diffElsewhere(ctx, e, name, path, v, *lines, *asJSON)
			}
		}
		if len(args) > 0 && *from == "" && *to == "" {
			path, q.From, err = e.SplitVersion(path)
			if err != nil {
				return err
			}
		}
		t, c, part, err := machines.Open(ctx, e, *machine, path)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := e.CheckKnown(ctx, c, t); err != nil {
			return err
		}
		q.Path = t.Rel
		if q.Since.IsZero() && cli.IsNewest(q.From) && cli.IsNewest(q.To) && !isDir(t) {
			to := wire.ShowQuery{Path: t.Rel}
			q.From.Seq, err = part.Newest(ctx, c, &to)
			if err != nil {
				return err
			}
			q.To.Seq = to.Seq
		}
		switch {
		case *stat && q.Since.IsZero():
			return e.Usagef("diff: --stat needs --since")
		case *stat && *asJSON:
			return statJSON(ctx, e, c, t, q.Since, part)
		case *stat && part != nil:
			return cli.Hintf("cachebro log --machine "+cli.Arg(*machine)+", or diff --stat --json", "--stat cannot be used here, because other machines wrote parts of this history")
		case *stat:
			return printStat(ctx, e, c, t, q.Since)
		}
		whole := q.Since.IsZero() && isDir(t)
		if whole && cli.IsNewest(q.From) {
			return e.Usagef("diff: name a file, or give --since or a number of the log for the whole of %s", cli.Quote(path))
		}
		q.Moments = whole || numbers
		return printDiff(ctx, e, c, q, *asJSON)
	})
}

// isDir reports whether a target is the project itself or a directory in it.
func isDir(t cli.Target) bool {
	if len(t.Rel) == 0 {
		return true
	}
	fi, err := os.Lstat(filepath.Join(t.Base(), string(t.Rel)))
	return err == nil && fi.IsDir()
}

// diffElsewhere compares a version on another machine with this machine's file.
func diffElsewhere(ctx context.Context, e *cli.Env, machine, path string, v wire.ShowQuery, lines int, asJSON bool) error {
	t, c, part, err := machines.Open(ctx, e, machine, path)
	if err != nil {
		return err
	}
	defer c.Close()
	v.Path = t.Rel
	if len(t.Rel) == 0 {
		return e.Usagef("diff: name a file in the history of %s", cli.Quote(machine))
	}
	if _, err := part.Newest(ctx, c, &v); err != nil {
		return err
	}
	var of wire.Version
	there, err := c.Call(ctx, wire.MShow, v, nil, &of)
	if err != nil {
		return err
	}
	if of.NoContent != "" {
		return cli.Hintf("cachebro log --machine "+cli.Arg(machine)+" "+cli.Arg(path), "version %d of %s has no content: %s", of.Seq, cli.Quote(path), of.NoContent)
	}
	if len(of.Target) > 0 {
		there = append(of.Target, '\n')
	}
	name, label := filepath.Join(t.Base(), string(t.Rel)), cli.Quote(string(t.Rel))
	var here []byte
	switch fi, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		label = os.DevNull
	case err != nil:
		return err
	case fi.Mode().Type() == fs.ModeSymlink:
		to, err := os.Readlink(name)
		if err != nil {
			return err
		}
		here = []byte(to + "\n")
	case !fi.Mode().IsRegular():
		return cli.Hintf("cachebro show "+cli.Arg(machine+":"+path), "%s is not a regular file here", cli.Quote(path))
	default:
		here, err = os.ReadFile(name)
		if err != nil {
			return err
		}
	}
	var a wire.DiffAnswer
	var body []byte
	if !bytes.Equal(here, there) {
		a.Files, a.Binary = 1, text.Binary(here) || text.Binary(there)
		if !a.Binary {
			body = diff.Unified(cli.Quote(machine+":"+string(t.Rel)), label, there, here, lines)
			if asJSON {
				changed := diff.Compare(there, here)
				a.Added, a.Removed = changed.Added(), changed.Removed()
			}
		}
	}
	return showDiff(e, t.Rel, a, body, asJSON)
}

func printDiff(ctx context.Context, e *cli.Env, c *wire.Client, q wire.DiffQuery, asJSON bool) error {
	var a wire.DiffAnswer
	body, err := c.Call(ctx, wire.MDiff, q, nil, &a)
	if err != nil {
		return err
	}
	return showDiff(e, q.Path, a, body, asJSON)
}

func showDiff(e *cli.Env, path []byte, a wire.DiffAnswer, body []byte, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(map[string]any{"files": a.Files, "added": a.Added, "removed": a.Removed, "binary": a.Binary, "diff": string(body)})
	}
	if a.Binary && len(body) == 0 {
		_, err := fmt.Fprintf(e.Stdout, "%s is binary and differs\n", cli.Quote(string(path)))
		return err
	}
	return e.Page(func(w io.Writer) error {
		_, err := io.WriteString(w, e.Paint().Diff(string(body)))
		return err
	})
}
