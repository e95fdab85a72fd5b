//go:build !linux || !(amd64 || arm64)

package running

import (
	"os/exec"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
)

// watched needs Linux.
type watched struct{}

func (s *session) watch(*exec.Cmd) *watched  { return nil }
func (s *session) begun(*watched, *exec.Cmd) {}
func (s *session) over(*watched)             {}

// NetCommand is cachebro net.
func NetCommand(*cli.Env) *cobra.Command {
	return &cobra.Command{Use: "net", Short: "needs Linux", RunE: func(*cobra.Command, []string) error {
		return cli.Hintf("cachebro run", "the net needs Linux")
	}}
}
