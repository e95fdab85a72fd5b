package mounting

import (
	"context"
	"path/filepath"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

// AtCommand returns the command cachebro at.
func AtCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "at [MOMENT]", Short: "show the project as it was, as read-only files",
		Long: `Prints the name of a directory that contains the whole project as it was at a moment,
for any editor, diff, grep, cp or script. A MOMENT is an age (10m), a time (12:40,
2026-11-22T12:40), a number of the log (812), a label, prompt/ID or session/ID/start,
where ID may be last. The printed name contains the version of that moment, so it always
shows the same moment. Without a MOMENT, the parent directory is printed, which contains
versions/PATH, at/AGE, at/TIME, at/version/NUMBER, at/prompt/ID and at/session/ID/start.
There, at/10m always means ten minutes ago, so it shows a later moment as time passes.

Nothing in this directory can be changed. It is mounted apart from the project, only you
can see it, and it is unmounted by cachebro umount or after ten minutes without use.
Reading a file whose content was not recorded gives an input/output error; its attribute
user.cachebro.why says why.`,
		Example: `  cd "$(cachebro at 10m)"
  diff -r "$(cachebro at prompt/last)" .
  cp "$(cachebro at 812)"/src/main.go .
  ls -l "$(cachebro at --versions src/main.go)"`,
		Args: e.Args(0, 1),
	}
	versions := cmd.Flags().Bool("versions", false, "the argument is a FILE; print a directory that holds each of its versions as a file")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		return printPast(ctx, e, cli.First(args, ""), *versions)
	})
}

// ServePastCommand returns the command cachebro past, which serves what cachebro at prints.
func ServePastCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "past", Short: "serves the past of a project (started by cachebro at)", Args: e.Args(0, 0)}
	root := cmd.Flags().String("root", "", "the project's root")
	point := cmd.Flags().String("point", "", "where to mount")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		if !filepath.IsAbs(*root) || !filepath.IsAbs(*point) {
			return e.Usagef("past is started by cachebro at, with absolute --root and --point")
		}
		return servePast(ctx, e, *root, *point)
	})
}
