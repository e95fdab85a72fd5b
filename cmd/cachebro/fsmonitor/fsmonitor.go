// Package fsmonitor is what git asks, by its setting core.fsmonitor, which files
// changed since its last look: version 2 of the protocol in githooks(5). It
// stands at the end of the way that begins in package journal, and passes on
// what mountd says.
//
//	git status ──runs──▶ cachebro fsmonitor 2 TOKEN ──socket──▶ mountd
//
// The working directory is the top of the work tree. The answer on stdout is
// what wire.AskChanges returns. Whenever the mount cannot speak for the whole
// work tree, because nothing is mounted there, or something else is mounted
// inside it, or nobody answers, the exit status is 1, and git looks at
// everything itself, as it does without us.
//
// A question is one process, at each status, so package quick runs this before
// the rest of the program is initialised. No state, no locks.
package fsmonitor

import (
	"context"
	"errors"
	"io"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// wait is how long mountd may take. Git would look at everything meanwhile.
const wait = 3 * time.Second

// ErrUnknown: git must look itself.
var ErrUnknown = errors.New("not known: git looks at everything itself")

// Quick reports whether these arguments are a question of git's, and not a
// person who wants to know what this command is.
func Quick(args []string) bool { return len(args) == 2 && args[0] == "2" }

// Answer writes what changed in the work tree dir since the token.
func Answer(ctx context.Context, p wire.Paths, dir, token string, stdout io.Writer) error {
	if dir == "" {
		return ErrUnknown
	}
	table, err := mounts.Mounts()
	if err != nil {
		return err
	}
	m, ok := mounts.Above(table, dir)
	if !ok || m.Type != mounts.FSType {
		return ErrUnknown
	}
	if _, other := mounts.Below(table, dir); other {
		return ErrUnknown
	}
	prefix := ""
	if dir != m.Point {
		prefix = mounts.Rel(dir, m.Point)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a, err := wire.AskChanges(ctx, p, m.Source, token, prefix)
	if err != nil {
		return err
	}
	_, err = stdout.Write(a)
	return err
}
