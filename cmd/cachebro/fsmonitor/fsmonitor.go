// Package fsmonitor answers git's question which files changed since git looked
// last (core.fsmonitor, version 2 of the protocol in githooks(5)). It passes on
// what mountd says; mountd knows it from package changes.
//
//	git status ──runs──▶ cachebro fsmonitor 2 TOKEN ──socket──▶ mountd
//
// The working directory is the top of the work tree. The answer on stdout is
// what wire.AskChanges returns. The exit status is 1 when the mount cannot speak
// for the whole work tree: nothing is mounted there, something else is mounted
// inside it, or nobody answers. Git then looks at everything itself.
//
// Each question is one process, at every git status, so package fastpath runs this
// before the rest of the program is initialised. No state, no locks.
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

// OnFastPath reports whether these arguments are a question of git's, and not a
// person who wants to know what this command is.
func OnFastPath(args []string) bool { return len(args) == 2 && args[0] == "2" }

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
