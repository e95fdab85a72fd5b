package past

import "cachebro/cmd/cachebro/cli"

// Command is cachebro at.
func Command() cli.Command {
	return cli.Command{
		Name: "at", Group: cli.GroupEvery, Args: "[MOMENT]", Short: "the project as it was, as read-only files",
		Long: `Prints a directory that holds the whole project as it was at a moment, for any
editor, diff, grep, cp or script. A MOMENT is an age (10m), a time (12:40,
2026-11-22T12:40), a number of the log (812), a label, prompt/ID or session/ID/start; ID may be
last. What is printed stays that moment, named by its version. Without a MOMENT it is the
directory above: at/MOMENT, which is found anew each time, and versions/PATH.

Nothing in it can be changed. It is mounted beside the project, for you alone, and
goes when nobody has looked at it for ten minutes, or with umount. A file of which
nothing was kept gives an input/output error; its attribute user.cachebro.why says why.

Examples:
  cd "$(cachebro at 10m)"
  diff -r "$(cachebro at prompt/last)" .
  cp "$(cachebro at 812)"/src/main.go .
  ls -l "$(cachebro at --versions src/main.go)"`,
		Run: runAt,
	}
}

// ServeCommand is cachebro past, which serves what at prints.
func ServeCommand() cli.Command {
	return cli.Command{Name: "past", Short: "serves the past of a project (started by cachebro at)", Run: runPast}
}
