package supervisor

import (
	"errors"
	"path/filepath"
	"strings"

	"cachebro/store/wire"
)

// Explain turns "the daemon could not start", which carries the end of the
// daemon's log, into what the daemon itself said last: its own message and hint.
func Explain(err error, state string) error {
	if err == nil || !errors.Is(err, wire.ErrNoDaemon) {
		return err
	}
	var said, hint string
	for line := range strings.Lines("\n" + strings.ReplaceAll(err.Error(), ": cachebro: ", "\ncachebro: ")) {
		line = strings.TrimSuffix(line, "\n")
		if m, ok := strings.CutPrefix(line, "cachebro: "); ok {
			said, hint = m, ""
		}
		if h, ok := strings.CutPrefix(line, "hint: "); ok {
			hint = h
		}
	}
	if said == "" {
		return err
	}
	sentinel := wire.ErrNoDaemon
	switch {
	case strings.Contains(said, wire.ErrDamaged.Message):
		// fsck needs a store that can be opened; this one cannot.
		sentinel = wire.ErrDamaged
		store := filepath.Join(state, "store")
		hint = "mv " + store + " " + store + ".damaged   (the history begins anew; the project is not touched)"
	case strings.Contains(said, "no space"):
		sentinel = wire.ErrNoSpace
	}
	return wire.Errorf(sentinel, hint, "the store daemon could not start: %s", said)
}
