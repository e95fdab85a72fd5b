package commands

import (
	"context"
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"
	"cachebro/cmd/cachebro/fork"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/hooks"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

func hookCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "hook [EVENT]", Short: "answers an agent's hook events (registered by its settings)",
		Long: `Reads one event as JSON from standard input. Never fails and never blocks: the
exit status is 0, whatever happens. A daemon that has to be started has 1 s; one that
does not answer within 200 ms is left alone for 30 s; CACHEBRO_HOOK_WAIT=2s gives it
longer.

WorktreeCreate and WorktreeRemove (cachebro init --worktrees) are another matter:
the client waits for the directory and hears of a failure.`,
		Example:            `  echo '{"hook_event_name":"Stop"}' | cachebro hook`,
		DisableFlagParsing: true,
		RunE:               quietly(func(cmd *cobra.Command, args []string) error { return answerHook(cmd, e, args) }),
	}
}

// quietly returns the run function of a command that a client calls: it neither fails nor
// shows a panic. Exit status 2 would block the agent's tool call, and 2 is also the status
// of a Go panic.
func quietly(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		debug.SetTraceback("none")
		defer func() {
			if recover() != nil {
				err = nil
			}
		}()
		if cli.AsksForHelp(args) {
			return cmd.Help()
		}
		return run(cmd, args)
	}
}

// answerHook answers the events that may have to start something; package fastpath
// answered all others before main began.
func answerHook(cmd *cobra.Command, e *cli.Env, args []string) error {
	ctx := cmd.Context()
	if len(args) == 1 && (args[0] == "WorktreeCreate" || args[0] == "WorktreeRemove") {
		return fork.AnswerWorktree(ctx, e, args[0])
	}
	env := fastpath.Env(args)
	env.Stdin, env.Stdout = e.Stdin, e.Stdout
	env.Start = func(ctx context.Context, root string) (*wire.Client, error) {
		return e.ConnectAs(ctx, root, "hook", wire.Timeouts{})
	}
	env.Mount = func(ctx context.Context, root string) (bool, error) { return mounting.MountForSession(ctx, e, root) }
	hooks.Run(ctx, env)
	return nil
}
