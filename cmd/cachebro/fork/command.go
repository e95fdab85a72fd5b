package fork

import (
	"context"

	"cachebro/cmd/cachebro/cli"
)

// Command is cachebro fork.
func Command() cli.Command {
	return cli.Command{
		Name: "fork", Group: cli.GroupEvery, Args: "[DIR | diff | merge | drop]", Short: "a copy of the project, of now or of any moment, to work in",
		Long: `Makes DIR, which must be empty or not be there, a copy of the project's files and
mounts it: what is changed there is kept in a history of its own, and the project does
not see it. Without --at it is the project as it is now, uncommitted changes included.
In a git repository DIR becomes a worktree of it, on no branch or a new one (--branch).
Where the file system can (btrfs, xfs), the copy shares the disk blocks of the project.

  cachebro fork                  the forks of this project
  cachebro fork diff [FORK]      what was changed in it since it was made
  cachebro fork merge [FORK]     bring that into the project, file by file and
                                 line by line; what was changed differently
                                 there is named and left (exit status 1)
  cachebro fork drop [FORK]      unmount and delete it and its history; not
                                 while it holds what is nowhere else

Examples:
  cachebro fork ../try
  cachebro fork ../before --at 40m
  cachebro fork ../agent-2 --ignored   with node_modules, .env and the like
  cachebro fork merge ../try --dry-run`,
		Run: run,
	}
}

type options struct {
	at, dir, branch      string
	ignored, json, patch bool
	dryRun, force        bool
}

func run(ctx context.Context, e *cli.Env) error {
	var o options
	fs := e.Flags()
	fs.StringVar(&o.at, "at", "", "the moment: an age (10m), a time (12:40), 812, prompt/ID or session/ID/start")
	fs.BoolVar(&o.ignored, "ignored", false, "also what git ignores, as it is now")
	fs.StringVar(&o.branch, "branch", "", "a new git branch for the fork")
	fs.StringVar(&o.dir, "dir", ".", "the project")
	fs.BoolVarP(&o.patch, "patch", "p", false, "diff: the changed lines")
	fs.BoolVarP(&o.dryRun, "dry-run", "n", false, "merge: only say what would be done")
	fs.BoolVar(&o.force, "force", false, "drop: also what is nowhere else")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	args, err := e.Parse(fs, 0, 2)
	if err != nil {
		return err
	}
	what := cli.First(args, "")
	switch what {
	case "diff", "merge", "drop":
		if o.at != "" || o.ignored || o.branch != "" {
			return e.Usagef("fork: --at, --ignored and --branch are for a new fork")
		}
		f, err := find(e, cli.First(args[1:], "."))
		if err != nil {
			return err
		}
		switch what {
		case "diff":
			return diffFork(ctx, e, f, o)
		case "merge":
			return mergeFork(ctx, e, f, o)
		}
		return dropFork(ctx, e, f, o)
	}
	if len(args) > 1 {
		return e.Usagef("fork: unexpected argument %s", cli.Quote(args[1]))
	}
	if o.patch || o.dryRun || o.force {
		return e.Usagef("fork: --patch is for diff, --dry-run for merge, --force for drop")
	}
	if what == "" && (o.at != "" || o.ignored || o.branch != "") {
		return e.Usagef("fork: --at, --ignored and --branch need the directory of a new fork")
	}
	if what == "" {
		return list(e, o)
	}
	return create(ctx, e, what, o)
}
