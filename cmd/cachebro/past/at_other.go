//go:build !linux

package past

import (
	"context"

	"cachebro/cmd/cachebro/cli"
)

func runAt(context.Context, *cli.Env) error {
	return cli.Hintf("cachebro show FILE@10m; cachebro restore --at 10m", "the past cannot be mounted here")
}

func runPast(ctx context.Context, e *cli.Env) error { return runAt(ctx, e) }
