//go:build !linux || !(amd64 || arm64)

package running

import (
	"context"
	"os/exec"

	"cachebro/cmd/cachebro/cli"
)

// watched needs Linux.
type watched struct{}

func (s *session) watch(*exec.Cmd) *watched  { return nil }
func (s *session) begun(*watched, *exec.Cmd) {}
func (s *session) over(*watched)             {}

// NetCommand is cachebro net.
func NetCommand() cli.Command {
	return cli.Command{Name: "net", Short: "needs Linux", Run: func(context.Context, *cli.Env) error {
		return cli.Hintf("cachebro run", "the net needs Linux")
	}}
}
