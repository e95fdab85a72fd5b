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
exit status is 0, whatever happens. It waits up to 1 s for a daemon that has to be
started. If a daemon does not answer within 200 ms (or the time in
CACHEBRO_HOOK_WAIT, such as 2s), hooks do not ask it again for 30 s.

WorktreeCreate and WorktreeRemove (cachebro init --worktrees) are different: the
client waits for the directory, and a failure is reported to it.`,
		Example:            `  echo '{"hook_event_name":"Stop"}' | cachebro hook`,
		DisableFlagParsing: true,
		RunE:               quietly(func(cmd *cobra.Command, args []string) error { return answerHook(cmd, e, args) }),
	}
}

// quietly wraps the run function of a command that a client calls. It suppresses panics, because a
// Go panic exits with status 2, and a hook with status 2 blocks the agent's tool call.
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

// answerHook answers events for which a daemon or a mount may have to be started. Package fastpath
// answers all other events before main begins.
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
