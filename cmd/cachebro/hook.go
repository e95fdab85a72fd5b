package main

import (
	"context"
	"runtime/debug"

	"cachebro/fusefs/ignore"
	"cachebro/hooks"
	"cachebro/store/wire"

	"golang.org/x/term"
)

func hookCommand() command {
	return command{
		name: "hook", group: groupPlumbing, args: "[EVENT]", short: "answers an agent's hook events (registered by its settings)",
		long: "Reads one event as JSON from standard input. Never fails and never blocks: the\nexit status is 0, whatever happens.\n\nExamples:\n  echo '{\"hook_event_name\":\"Stop\"}' | cachebro hook",
		run:  runHook,
	}
}

// runHook answers one event. Exit status 2 would block the agent's tool call,
// and 2 is also that of a Go panic, hence the recover and the silence.
func runHook(ctx context.Context, e *env) (err error) {
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
	code := hooks.Run(ctx, hooks.Env{
		Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, Args: e.args, Getenv: e.getenv, Now: e.now, Dir: e.dir, Paths: e.paths(),
		Dial: func(ctx context.Context, root string) (*wire.Client, error) {
			return wire.Dial(ctx, e.paths(), wire.Hello{Version: version, Client: "hook", Root: root}, wire.HookTimeouts)
		},
		Start: func(ctx context.Context, root string) (*wire.Client, error) {
			return e.connectAs(ctx, root, "hook", wire.Timeouts{})
		},
		Mount:  e.mountForSession,
		Secret: ignore.Secret,
		Color:  term.IsTerminal(2) && e.getenv("NO_COLOR") == "",
	})
	if code != 0 {
		return exitStatus(code)
	}
	return nil
}
