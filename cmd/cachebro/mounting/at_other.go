//go:build !linux

package mounting

import (
	"context"

	"cachebro/cmd/cachebro/cli"
)

func printPast(context.Context, *cli.Env, string, bool) error {
	return cli.Hintf("cachebro show FILE@10m; cachebro restore --at 10m", "the past cannot be mounted here")
}

func servePast(ctx context.Context, e *cli.Env, _, _ string) error {
	return printPast(ctx, e, "", false)
}
