// Command cachebro is the one binary of the project. It contains the command line, the processes
// behind a mount (supervise, mountd, daemon) and the processes that agents start (serve, hook).
// Only this package reads the environment and ends the process.
package main

import (
	"os"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/commands"
)

func main() {
	e := cli.NewEnv()
	os.Exit(e.Run(commands.Root(e), os.Args[1:]))
}
