package commands

import (
	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fastpath"
	"cachebro/hooks"

	"github.com/spf13/cobra"
)

func statusLineCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "statusline", Short: "one line for an agent's status line (init --status-line sets it)",
		Long: `Reads the client's JSON from standard input and prints how many tokens were saved, or
that something needs attention. Prints nothing outside of a project. Never fails.`,
		Example:            `  echo '{"session_id":"x"}' | cachebro statusline`,
		DisableFlagParsing: true,
		RunE:               quietly(func(cmd *cobra.Command, _ []string) error { return printStatusLine(cmd, e) }),
	}
}

// printStatusLine prints the line if the command has arguments. Without arguments, package fastpath
// has already printed the line and exited.
func printStatusLine(cmd *cobra.Command, e *cli.Env) error {
	env := fastpath.Env(nil)
	env.Stdin, env.Stdout = e.Stdin, e.Stdout
	hooks.RunStatusLine(cmd.Context(), env)
	return nil
}
