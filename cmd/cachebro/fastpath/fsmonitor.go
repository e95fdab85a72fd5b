package fastpath

import (
	"context"
	"errors"
	"io"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// Git asks which files changed since it last asked (core.fsmonitor, version 2 of the protocol in
// githooks(5)). The question is passed on to mountd, which remembers what changed.
//
//	git status ──runs──▶ cachebro fsmonitor 2 TOKEN ──socket──▶ mountd
//
// The working directory is the top of the work tree. The answer on stdout is what wire.AskChanges
// returns. The exit status is 1 if mountd does not answer, or if the mount does not cover the whole
// work tree. Git then examines all files itself.

// monitorWait is how long mountd may take. Git could examine all files itself in that time.
const monitorWait = 3 * time.Second

// errUnknown makes git examine the files itself.
var errUnknown = errors.New("changes since that token are not known, so git checks every file")

// asksForChanges reports whether the arguments are those that git passes. Other arguments, such as
// --help, come from a person.
func asksForChanges(args []string) bool { return len(args) == 2 && args[0] == "2" }

// WriteChanges writes what changed in the work tree dir since the token.
func WriteChanges(ctx context.Context, p wire.Paths, dir, token string, stdout io.Writer) error {
	if dir == "" {
		return errUnknown
	}
	table, err := mounts.Mounts()
	if err != nil {
		return err
	}
	m, ok := mounts.Above(table, dir)
	if !ok || m.Type != mounts.FSType {
		return errUnknown
	}
	if _, other := mounts.Below(table, dir); other {
		return errUnknown
	}
	prefix := ""
	if dir != m.Point {
		prefix = mounts.Rel(dir, m.Point)
	}
	ctx, cancel := context.WithTimeout(ctx, monitorWait)
	defer cancel()
	a, err := wire.AskChanges(ctx, p, m.Source, token, prefix)
	if err != nil {
		return err
	}
	_, err = stdout.Write(a)
	return err
}
