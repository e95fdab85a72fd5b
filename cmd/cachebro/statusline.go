package main

import (
	"context"
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"
	"cachebro/hooks"
)

func statusLineCommand() cli.Command {
	return cli.Command{
		Name: "statusline", Group: cli.GroupPlumbing, Short: "one line for an agent's status line (init --status-line sets it)",
		Long: "Reads the client's JSON from standard input and prints what was saved, or that\nsomething needs attention. Prints nothing outside of a project; never fails.\n\nExamples:\n  echo '{\"session_id\":\"x\"}' | cachebro statusline",
		Run:  runStatusLine,
	}
}

// runStatusLine is reached with arguments only: package fastpath printed the line.
// It keeps to the rules of a hook: see runHook.
func runStatusLine(ctx context.Context, e *cli.Env) (err error) {
	debug.SetTraceback("none")
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	if len(e.Args) == 1 && (e.Args[0] == "--help" || e.Args[0] == "-h") {
		e.PrintHelp(e.Flags())
		return nil
	}
	env := fastpath.Env(nil)
	env.Stdin, env.Stdout = e.Stdin, e.Stdout
	hooks.RunStatusLine(ctx, env)
	return nil
}
