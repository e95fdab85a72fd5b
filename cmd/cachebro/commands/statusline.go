package commands

import (
	"runtime/debug"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"
	"cachebro/hooks"

	"github.com/spf13/cobra"
)

func statusLineCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "statusline", Short: "one line for an agent's status line (init --status-line sets it)",
		Long: `Reads the client's JSON from standard input and prints what was saved, or that
something needs attention. Prints nothing outside of a project; never fails.`,
		Example:            `  echo '{"session_id":"x"}' | cachebro statusline`,
		DisableFlagParsing: true,
		RunE:               func(cmd *cobra.Command, args []string) error { return printStatusLine(cmd, e, args) },
	}
}

// printStatusLine is reached with arguments only: package fastpath printed the line.
// It keeps to the rules of a hook: see answerHook.
func printStatusLine(cmd *cobra.Command, e *cli.Env, args []string) (err error) {
	debug.SetTraceback("none")
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	if cli.AsksForHelp(args) {
		return cmd.Help()
	}
	env := fastpath.Env(nil)
	env.Stdin, env.Stdout = e.Stdin, e.Stdout
	hooks.RunStatusLine(cmd.Context(), env)
	return nil
}
