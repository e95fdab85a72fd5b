// Command cachebro-fleet keeps what many machines did in PostgreSQL. It is fed from the buckets
// to which their histories are sent, and answers questions from the database. It is a separate
// program, because whoever works on one machine needs none of it. In observe → version → index
// → serve it comes after serve; it starts no daemon, mounts nothing and writes to no bucket.
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

// run carries out a command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	cobra.EnableCommandSorting = false
	return e.Run(e.Group(&cobra.Command{
		Use:     "cachebro-fleet COMMAND postgres://…",
		Short:   "keeps what many machines did in PostgreSQL",
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
