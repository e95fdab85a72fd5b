//go:build !linux

package running

import (
	"context"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

func (s *session) runPrivate(context.Context) (began bool, err error) {
	return false, cli.Hintf("cachebro run without --private", "--private needs the namespaces of Linux")
}

// PrivateCommand returns the command cachebro private.
func PrivateCommand(*cli.Env) *cobra.Command {
	return &cobra.Command{Use: "private", Short: "needs Linux", RunE: func(*cobra.Command, []string) error {
		return cli.Hintf("cachebro run", "namespaces need Linux")
	}}
}
