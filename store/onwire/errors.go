package onwire

import (
	"errors"
	"fmt"

	"cachebro/store"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Error converts an error of the store to a wire error with a code.
func Error(err error) error {
	var already *wire.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	for _, m := range []struct {
		from error
		to   *wire.Error
	}{
		{store.ErrNotFound, wire.ErrNotFound}, {store.ErrPruned, wire.ErrPruned}, {store.ErrNoSpace, wire.ErrNoSpace},
		{store.ErrDamaged, wire.ErrDamaged}, {store.ErrNewer, wire.ErrNewer}, {store.ErrLocked, wire.ErrLocked},
		{store.ErrTooLarge, wire.ErrTooLarge}, {store.ErrClosed, wire.ErrNoDaemon}, {unix.EFBIG, wire.ErrInternal}, {unix.EMFILE, wire.ErrInternal},
	} {
		if errors.Is(err, m.from) {
			return &wire.Error{Code: m.to.Code, Message: err.Error(), Hint: store.Hint(err)}
		}
	}
	return fmt.Errorf("store: %w", err)
}
