// Command cachebro-fleet keeps what many machines did in PostgreSQL, fed from the buckets
// that their histories are sent to, and asks there. It is a program of its own: whoever
// works on one machine needs none of it. In observe → version → index → serve it is behind
// the last; it starts no daemon, mounts nothing and writes to no bucket.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cachebro/cmd/cachebro/cli"
)

func main() {
	os.Exit(run(cli.NewEnv(os.Args)))
}

// run executes the command that args[1] names and returns the exit status.
func run(e *cli.Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e.Called = "cachebro-fleet"
	defer e.Flush()
	return e.Report(choose(ctx, e))
}

func commands() []cli.Command {
	return []cli.Command{indexCommand(), logCommand(), blameCommand(), auditCommand(), pruneCommand()}
}

func choose(ctx context.Context, e *cli.Env) error {
	switch e.Name {
	case "", "help", "-h", "--help":
		return help(ctx, e)
	case "version", "--version", "-V":
		_, err := fmt.Fprintf(e.Stdout, "cachebro-fleet %s\n", cli.Version)
		return err
	}
	for _, c := range commands() {
		if c.Name == e.Name {
			e.Cmd = c
			return c.Run(ctx, e)
		}
	}
	return e.Usagef("unknown command %s", cli.Quote(e.Name))
}

func help(ctx context.Context, e *cli.Env) error {
	for _, c := range commands() {
		if len(e.Args) > 0 && c.Name == e.Args[0] {
			e.Cmd, e.Args = c, []string{"--help"}
			return c.Run(ctx, e)
		}
	}
	fmt.Fprint(e.Stdout, "cachebro-fleet keeps what many machines did in PostgreSQL\n\nUsage:\n  cachebro-fleet COMMAND postgres://… [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(e.Stdout, "  %-8s %s\n", c.Name, c.Short)
	}
	_, err := fmt.Fprintln(e.Stdout, "\ncachebro-fleet help COMMAND shows more.")
	return err
}
