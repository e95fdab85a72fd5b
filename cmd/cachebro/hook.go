package main

import (
	"context"
	"runtime/debug"

	"cachebro/cmd/cachebro/fastpath"
	"cachebro/hooks"
	"cachebro/store/wire"
)

func hookCommand() command {
	return command{
		name: "hook", group: groupPlumbing, args: "[EVENT]", short: "answers an agent's hook events (registered by its settings)",
		long: "Reads one event as JSON from standard input. Never fails and never blocks: the\nexit status is 0, whatever happens. A daemon that does not answer within 200 ms\nis left alone for 30 s; CACHEBRO_HOOK_WAIT=2s gives it longer.\n\nExamples:\n  echo '{\"hook_event_name\":\"Stop\"}' | cachebro hook",
		run:  runHook,
	}
}

// runHook answers the events that may have to start something; package quick
// answered all others before main began. Exit status 2 would block the agent's tool call,
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
	env := fastpath.Env(e.args)
	env.Stdin, env.Stdout = e.stdin, e.stdout
	env.Start = func(ctx context.Context, root string) (*wire.Client, error) {
		return e.connectAs(ctx, root, "hook", wire.Timeouts{})
	}
	env.Mount = e.mountForSession
	hooks.Run(ctx, env)
	return nil
}
