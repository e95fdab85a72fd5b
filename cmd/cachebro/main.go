// Command cachebro is the one binary of the project: the command line, the
// processes behind a mount (supervise, mountd, daemon) and what agents start
// (serve, hook). It is where all rooms meet, the only place that reads the
// environment, and the only one that ends the process.
//
// A command is a name and a func(ctx, *env) error (see commands). The error
// decides the exit status: nil 0, usage 2, a child's own status for run,
// anything else 1. Errors go to stderr as "cachebro: …" and "hint: …".
package main

import (
	"context"
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
	ctx := context.Background()
	c, err := choose(e)
	if err == nil {
		e.Cmd = c
		if !c.OwnSignals {
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
		}
		err = c.Run(ctx, e)
	}
	defer e.Flush()
	return e.Report(err)
}
