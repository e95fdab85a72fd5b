// Command cachebro-fleet stores the history of many machines in PostgreSQL. It imports from the
// buckets to which the machines send their histories, and answers queries from the database. It is
// a separate program, because a person who works on one machine does not need it. It starts no
// daemon, mounts nothing and writes to no bucket.
package main

import (
	"fmt"
	"os"
	"runtime"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(cli.NewEnv(), os.Args[1:]))
}

func run(e *cli.Env, args []string) int {
	cobra.EnableCommandSorting = false
	return e.Run(e.Group(&cobra.Command{
		Use:     "cachebro-fleet COMMAND postgres://…",
		Short:   "stores the history of many machines in PostgreSQL",
		Version: cli.Version,
	}, indexCommand(e), logCommand(e), blameCommand(e), auditCommand(e), pruneCommand(e), versionCommand(e)), args)
}

func versionCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version",
		Args: e.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(e.Stdout, "%s %s %s/%s\n", cmd.Root().Name(), cli.Version, runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
