package main

import (
	"context"
	"runtime/debug"

	"cachebro/cmd/cachebro/fastpath"
	"cachebro/hooks"
)

func statusLineCommand() command {
	return command{
		name: "statusline", group: groupPlumbing, short: "one line for an agent's status line (init --status-line sets it)",
		long: "Reads the client's JSON from standard input and prints what was saved, or that\nsomething needs attention. Prints nothing outside of a project; never fails.\n\nExamples:\n  echo '{\"session_id\":\"x\"}' | cachebro statusline",
		run:  runStatusLine,
	}
}

// runStatusLine is reached with arguments only: package quick printed the line.
// It keeps to the rules of a hook: see runHook.
func runStatusLine(ctx context.Context, e *env) (err error) {
	debug.SetTraceback("none")
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	if len(e.args) == 1 && (e.args[0] == "--help" || e.args[0] == "-h") {
		e.printHelp(e.flags())
		return nil
	}
	env := fastpath.Env(nil)
	env.Stdin, env.Stdout = e.stdin, e.stdout
	hooks.RunStatusLine(ctx, env)
	return nil
}
