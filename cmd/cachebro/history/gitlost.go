package history

import (
	"context"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/undo/gitback"
	"cachebro/store/wire"
)

// GitCommand is cachebro git.
func GitCommand() cli.Command {
	return cli.Command{
		Name: "git", Group: cli.GroupHistory, Args: "lost | back COMMIT", Short: "commits, branches and stashes that were lost",
		Long: `git lost lists the commits of the last 30 days that a branch, a tag, a stash or HEAD
stood for and that nothing reaches any more, newest first, each with the command that
brings it back. cachebro undo --git takes whole operations back.

git back puts the objects of a commit, which gc has removed, into the repository again.

Examples:
  cachebro git lost
  cachebro git lost --json`,
		Run: runGit,
	}
}

func runGit(ctx context.Context, e *cli.Env) error {
	fs := e.Flags()
	dir := fs.String("dir", ".", "the project")
	limit := fs.IntP("limit", "n", 20, "lost: at most so many; 0: all")
	asJSON := fs.Bool("json", false, "print JSON")
	args, err := e.Parse(fs, 1, 2)
	if err != nil {
		return err
	}
	what := args[0]
	if what != "lost" && what != "back" || (what == "back") != (len(args) == 2) {
		return e.Usagef("git: want lost, or back COMMIT")
	}
	t, c, err := here(ctx, e, *dir)
	if err != nil {
		return err
	}
	defer c.Close()
	known, err := wire.Call[wire.GitLost](ctx, c, wire.MGitLost, wire.Empty{})
	if err != nil {
		return err
	}
	at := gitback.Place{Base: t.Base(), Kept: known.Kept, Env: e.Vars}
	if what == "back" {
		for _, tip := range known.Tips {
			if strings.HasPrefix(tip.Commit, args[1]) && len(args[1]) >= 7 {
				return at.Back(ctx, tip.Dir, tip.Commit)
			}
		}
		return cli.Hintf("cachebro git lost lists them", "no commit %s is known", cli.Quote(args[1]))
	}
	lost, err := at.Lost(ctx, known.Tips)
	if err != nil {
		return err
	}
	if *asJSON {
		if lost == nil {
			lost = []gitback.Lost{}
		}
		return e.PrintJSON(lost)
	}
	if apart := GitApart(t.Base()); apart != "" {
		fmt.Fprintln(e.Stderr, "note: "+apart)
	}
	if len(lost) == 0 {
		fmt.Fprintln(e.Stdout, "nothing is lost that is known")
	}
	p := e.Paint()
	for i, x := range lost {
		if *limit > 0 && i == *limit {
			fmt.Fprintln(e.Stdout, p.Dim(fmt.Sprintf("… %d more (--limit 0)", len(lost)-i)))
			break
		}
		fmt.Fprintf(e.Stdout, "%s  %s  %s  %s\n", p.Yellow(x.Commit[:7]), cli.Stamp(x.Until, e.Now()), cli.OneLine(strings.TrimPrefix(strings.TrimPrefix(x.Name, "refs/heads/"), "refs/")), p.Bold(clip(cli.OneLine(x.Subject), 60)))
		if x.By != "" {
			fmt.Fprintf(e.Stdout, "         %s\n", p.Dim("until: "+clip(cli.OneLine(x.By), 70)))
		}
		fmt.Fprintf(e.Stdout, "         %s\n", cli.OneLine(x.Command))
	}
	return nil
}

// GitApart says what is not kept of a project whose git directory is elsewhere, or has
// another name. "" else.
func GitApart(tree string) string {
	switch dir, inside := gitdir.Apart(tree); {
	case dir == "":
		return ""
	case inside:
		return cli.Quote(dir) + " is not called .git: its files have versions as others have, but undo --git and git lost do not know them"
	default:
		return cli.Quote(dir) + " is outside of the project: what git's own files lose there is not kept (undo --git, git lost)"
	}
}
