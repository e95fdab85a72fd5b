package main

import (
	"context"

	"cachebro/cmd/cachebro/fsmonitor"
)

func fsmonitorCommand() command {
	return command{
		name: "fsmonitor", group: groupPlumbing, args: "2 TOKEN", short: "tells git which files changed (its core.fsmonitor)",
		long: `Answers git's question which paths changed since TOKEN, in version 2 of its
fsmonitor protocol, from what the mount saw: all paths, also ignored ones. In any
doubt (somebody wrote underneath, the mount's process was replaced, too much
changed) the answer is that everything may have changed; without a mount it fails,
and git looks itself. cachebro init --git-fsmonitor sets it up.

Examples:
  cachebro init --git-fsmonitor
  cachebro fsmonitor 2 "" | tr '\0' '\n'`,
		run: runFsmonitor,
	}
}

// runFsmonitor is for who types it; git's own questions package quick answers.
func runFsmonitor(ctx context.Context, e *env) error {
	args, err := e.parse(e.flags(), 2, 2)
	if err != nil {
		return err
	}
	if args[0] != "2" {
		return e.usagef("fsmonitor: only version 2 of the protocol is spoken: git config core.fsmonitorHookVersion 2")
	}
	return fsmonitor.Answer(ctx, e.paths(), e.dir, args[1], e.stdout)
}
