package history

import (
	"context"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/gitback"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// GitCommand returns the command cachebro git.
func GitCommand(e *cli.Env) *cobra.Command {
	return e.Group(&cobra.Command{Use: "git", Short: "find and restore lost commits, branches and stashes"}, gitLostCommand(e), gitBackCommand(e))
}

// gitKept asks the daemon for the commits that the project's refs have pointed to, and returns them
// with the place where removed objects are stored.
func gitKept(ctx context.Context, e *cli.Env) (wire.GitLost, gitback.Place, error) {
	t, c, err := e.Open(ctx, ".")
	if err != nil {
		return wire.GitLost{}, gitback.Place{}, err
	}
	defer c.Close()
	known, err := wire.Call[wire.GitLost](ctx, c, wire.MGitLost, wire.Empty{})
	return known, gitback.Place{Base: t.Base(), Kept: known.Kept, Env: e.Vars}, err
}

func gitBackCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "back COMMIT", Short: "restore the objects of a commit that git gc has removed",
		Example: "  cachebro git back 1a2b3c4",
		Args:    e.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			known, at, err := gitKept(ctx, e)
			if err != nil {
				return err
			}
			for _, tip := range known.Tips {
				if strings.HasPrefix(tip.Commit, args[0]) && len(args[0]) >= 7 {
					return at.Back(ctx, tip.Dir, tip.Commit)
				}
			}
			return cli.Hintf("cachebro git lost lists them", "no commit %s is known", cli.Quote(args[0]))
		},
	}
}

func gitLostCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lost", Short: "list commits that nothing reaches any more, and how to restore them",
		Long: `Lists commits that a branch, a tag, a stash or HEAD pointed to in the last 30 days and
that nothing reaches any more, newest first, each with the command that restores it.
cachebro undo --git undoes whole git operations.`,
		Example: `  cachebro git lost
  cachebro git lost --json`,
		Args: e.Args(0, 0),
	}
	fs := cmd.Flags()
	limit := fs.IntP("limit", "n", 20, "at most this many (0: all)")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		known, at, err := gitKept(ctx, e)
		if err != nil {
			return err
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
		if apart := GitApart(at.Base); apart != "" {
			fmt.Fprintln(e.Stderr, "note: "+apart)
		}
		if len(lost) == 0 {
			fmt.Fprintln(e.Stdout, "no lost commits, branches or stashes are known")
		}
		p := e.Paint()
		for i, x := range lost {
			if *limit > 0 && i == *limit {
				fmt.Fprintln(e.Stdout, p.Dim(fmt.Sprintf("… %d more (--limit 0)", len(lost)-i)))
				break
			}
			fmt.Fprintf(e.Stdout, "%s  %s  %s  %s\n", p.Yellow(x.Commit[:7]), cli.Stamp(x.Until, e.Now()), cli.OneLine(strings.TrimPrefix(strings.TrimPrefix(x.Name, "refs/heads/"), "refs/")), p.Bold(text.Clip(cli.OneLine(x.Subject), 60)))
			if x.By != "" {
				fmt.Fprintf(e.Stdout, "         %s\n", p.Dim("until: "+text.Clip(cli.OneLine(x.By), 70)))
			}
			fmt.Fprintf(e.Stdout, "         %s\n", cli.OneLine(x.Command))
		}
		return nil
	})
}

// GitApart returns a warning for a project whose git directory is elsewhere or is not called .git.
// It returns "" for all other projects.
func GitApart(tree string) string {
	switch dir, inside := gitdir.SeparateGitDir(tree); {
	case dir == "":
		return ""
	case inside:
		return cli.Quote(dir) + " is not called .git, so its files are recorded like any others, but undo --git and git lost cannot use them"
	default:
		return cli.Quote(dir) + " is outside of the project, so git's own files there are not recorded (undo --git and git lost do not work)"
	}
}
