// Command cachebro is the one binary of the project: the command line, the
// processes behind a mount (supervise, mountd, daemon) and what agents start
// (serve, hook). It is the only place that reads the environment, and the only one
// that ends the process.
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
