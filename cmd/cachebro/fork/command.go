package fork

import (
	"context"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

// Command returns the command cachebro fork.
func Command(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "fork [DIR]", Short: "make a copy of the project, as it is or was, to work in",
		Long: `Copies the project's files to DIR, which must be empty or missing, and mounts the copy.
Changes there are recorded in the fork's own history and do not affect the project.
Without --at, the copy is the project as it is now, uncommitted changes included. In a git
repository DIR becomes a worktree, with a detached HEAD or on a new branch (--branch). If
the file system supports it (btrfs, xfs), the copy shares the project's disk blocks.

Without DIR, the forks of this project are listed.`,
		Example: `  cachebro fork ../try
  cachebro fork ../before --at 40m
  cachebro fork ../agent-2 --ignored   with node_modules, .env and the like
  cachebro fork merge ../try --dry-run`,
		Args: e.OnlyBelow(1),
	}
	var o options
	fs := cmd.Flags()
	fs.StringVar(&o.at, "at", "", "the moment to copy: an age (10m), a time (12:40), a number of the log (812), a label, prompt/ID or session/ID/start")
	fs.BoolVar(&o.ignored, "ignored", false, "also copy files that git ignores, as they are now")
	fs.StringVar(&o.branch, "branch", "", "create this git branch for the fork")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return create(cmd.Context(), e, args[0], o)
		}
		if o.at != "" || o.ignored || o.branch != "" {
			return e.Usagef("fork: --at, --ignored and --branch need the directory of a new fork")
		}
		return list(e, o)
	}
	diff := &cobra.Command{
		Use: "diff [FORK]", Short: "show what was changed in a fork since it was made",
		Example: "  cachebro fork diff -p ../try",
	}
	patch := diff.Flags().BoolP("patch", "p", false, "show the changed lines")
	merge := &cobra.Command{
		Use: "merge [FORK]", Short: "merge the changes of a fork into the project",
		Long: `Merges file by file and line by line. Files with changes that conflict with
the project's are listed and left alone; the exit status is then 1.`,
		Example: "  cachebro fork merge ../try --dry-run",
	}
	dryRun := merge.Flags().BoolP("dry-run", "n", false, "only show what would be done")
	drop := &cobra.Command{
		Use: "drop [FORK]", Short: "unmount and delete a fork and its history",
		Long:    "This is refused if the fork contains changes or commits that exist nowhere else.",
		Example: "  cachebro fork drop ../try",
	}
	force := drop.Flags().Bool("force", false, "delete the fork even if it contains something that exists nowhere else")
	for sub, do := range map[*cobra.Command]func(context.Context, *cli.Env, fork, options) error{diff: diffFork, merge: mergeFork, drop: dropFork} {
		asJSON := sub.Flags().Bool("json", false, "print JSON")
		sub.Args = e.Args(0, 1)
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			f, err := find(e, cli.First(args, "."))
			if err != nil {
				return err
			}
			return do(cmd.Context(), e, f, options{json: *asJSON, patch: *patch, dryRun: *dryRun, force: *force})
		}
	}
	cmd.AddCommand(diff, merge, drop)
	return cmd
}

type options struct {
	at, branch           string
	ignored, json, patch bool
	dryRun, force        bool
}
