//go:build !linux || !(amd64 || arm64)

package running

import (
	"context"
	"os/exec"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

func (s *session) start(_ context.Context, cmd *exec.Cmd) error { return cmd.Start() }
func (s *session) endWatch()                                    {}

// NetCommand returns the command cachebro net.
func NetCommand(*cli.Env) *cobra.Command {
	return &cobra.Command{Use: "net", Short: "needs Linux", RunE: func(*cobra.Command, []string) error {
		return cli.Hintf("cachebro run", "the net needs Linux")
	}}
}
