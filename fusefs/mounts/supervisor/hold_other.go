//go:build !linux

package supervisor

import (
	"errors"
	"log/slog"
	"os"

	"cachebro/fusefs"
)

// hold is empty where a connection cannot be taken over.
type hold struct{ device, ledger *os.File }

func newHold(*slog.Logger) *hold                      { return &hold{} }
func inherit(_, _, _ *os.File, _ *slog.Logger) *hold  { return &hold{} }
func (*hold) close()                                  {}
func (*hold) canGoOn() bool                           { return false }
func (*hold) handDown() (*os.File, func(bool), error) { return nil, func(bool) {}, nil }
func dup(int, string) (*os.File, error)               { return nil, errors.ErrUnsupported }

type keeper struct{}

func (*keeper) use(*os.File)                           {}
func (*keeper) Keep(uint64, int) bool                  { return false }
func (*keeper) Drop(uint64)                            {}
func (*keeper) device(int)                             {}
func (*keeper) receive() map[uint64]*os.File           { return nil }
func (*keeper) renew(*fusefs.Server) (*os.File, error) { return nil, errors.ErrUnsupported }
