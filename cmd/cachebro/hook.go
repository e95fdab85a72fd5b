package main

import (
	"context"
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"
	"cachebro/cmd/cachebro/fork"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/hooks"
	"cachebro/store/wire"
)

func hookCommand() cli.Command {
	return cli.Command{
		Name: "hook", Group: cli.GroupPlumbing, Args: "[EVENT]", Short: "answers an agent's hook events (registered by its settings)",
		Long: "Reads one event as JSON from standard input. Never fails and never blocks: the\nexit status is 0, whatever happens. A daemon that has to be\nstarted has 1 s; one that does not answer within 200 ms is left alone for 30 s;\nCACHEBRO_HOOK_WAIT=2s gives it longer.\n\nWorktreeCreate and WorktreeRemove (cachebro init --worktrees) are another matter:\nthe client waits for the directory and hears of a failure.\n\nExamples:\n  echo '{\"hook_event_name\":\"Stop\"}' | cachebro hook",
		Run:  runHook,
	}
}

// runHook answers the events that may have to start something; package fastpath
// answered all others before main began. Exit status 2 would block the agent's tool
// call, and 2 is also the status of a Go panic; so it recovers and stays silent.
func runHook(ctx context.Context, e *cli.Env) (err error) {
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
	if len(e.Args) == 1 && (e.Args[0] == "WorktreeCreate" || e.Args[0] == "WorktreeRemove") {
		return fork.AnswerWorktree(ctx, e, e.Args[0])
	}
	env := fastpath.Env(e.Args)
	env.Stdin, env.Stdout = e.Stdin, e.Stdout
	env.Start = func(ctx context.Context, root string) (*wire.Client, error) {
		return e.ConnectAs(ctx, root, "hook", wire.Timeouts{})
	}
	env.Mount = func(ctx context.Context, root string) (bool, error) { return mounting.MountForSession(ctx, e, root) }
	hooks.Run(ctx, env)
	return nil
}
