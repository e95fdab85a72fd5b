//go:build !linux

package supervisor

import (
	"errors"
	"log/slog"
	"os"

	"cachebro/fusefs"
)

// fdStore is always empty here, because on this system no connection can be taken over.
type fdStore struct{ device, ledger *os.File }

func newFDStore(*slog.Logger) *fdStore                   { return &fdStore{} }
func inherit(_, _, _ *os.File, _ *slog.Logger) *fdStore  { return &fdStore{} }
func (*fdStore) close()                                  {}
func (*fdStore) canTakeOver() bool                       { return false }
func (*fdStore) handDown() (*os.File, func(bool), error) { return nil, func(bool) {}, nil }
func dup(int) (*os.File, error)                          { return nil, errors.ErrUnsupported }

type fdClient struct{}

func (*fdClient) use(*os.File)                           {}
func (*fdClient) Keep(uint64, int) bool                  { return false }
func (*fdClient) Drop(uint64)                            {}
func (*fdClient) device(int)                             {}
func (*fdClient) receive() map[uint64]*os.File           { return nil }
func (*fdClient) renew(*fusefs.Server) (*os.File, error) { return nil, errors.ErrUnsupported }
