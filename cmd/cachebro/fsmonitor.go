package main

import (
	"context"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fsmonitor"
)

func fsmonitorCommand() cli.Command {
	return cli.Command{
		Name: "fsmonitor", Group: cli.GroupPlumbing, Args: "2 TOKEN", Short: "tells git which files changed (core.fsmonitor)",
		Long: `Answers git's question which paths changed since TOKEN, in version 2 of its
fsmonitor protocol, from what the mount saw: all paths, also ignored ones. In any
doubt (somebody wrote underneath, the mount's process was replaced, too much
changed) the answer is that everything may have changed; without a mount it fails,
and git looks itself. cachebro init --git-fsmonitor sets it up.

Examples:
  cachebro init --git-fsmonitor
  cachebro fsmonitor 2 "" | tr '\0' '\n'`,
		Run: runFsmonitor,
	}
}

// runFsmonitor is for who types it; package fastpath answers those of git itself.
func runFsmonitor(ctx context.Context, e *cli.Env) error {
	args, err := e.Parse(e.Flags(), 2, 2)
	if err != nil {
		return err
	}
	if args[0] != "2" {
		return e.Usagef("fsmonitor: only version 2 of the protocol is supported: git config core.fsmonitorHookVersion 2")
	}
	return fsmonitor.Answer(ctx, e.Paths(), e.Dir, args[1], e.Stdout)
}
