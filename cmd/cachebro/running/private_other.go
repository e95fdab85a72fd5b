//go:build !linux

package running

import (
	"context"

	"cachebro/cmd/cachebro/cli"
)

func (s *session) runPrivate(context.Context) (began bool, err error) {
	return false, cli.Hintf("cachebro run without --private", "--private needs the namespaces of Linux")
}

// PrivateCommand is cachebro private.
func PrivateCommand() cli.Command {
	return cli.Command{Name: "private", Short: "needs Linux", Run: func(context.Context, *cli.Env) error {
		return cli.Hintf("cachebro run", "namespaces need Linux")
	}}
}
