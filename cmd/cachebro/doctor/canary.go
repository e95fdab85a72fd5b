package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// canaryWithin is how long the daemon may take to show a version.
const canaryWithin = 20 * time.Second

// canaryName is the usual name of the test file, which log and status leave out. Runs share one
// name, so that pruning keeps only a few versions.
const canaryName = ".cachebro-canary~"

// canary tests with a file whether changes are recorded and can be undone. It writes and overwrites
// the file through the mount, checks that both versions were recorded, undoes the last one by a
// plan, and removes the file.
func canary(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client) Finding {
	rel := canaryName
	if _, err := os.Lstat(filepath.Join(t.Point, rel)); err == nil { // another doctor is running
		rel = strings.Replace(rel, "~", fmt.Sprintf("-%d~", os.Getpid()), 1)
	}
	name := filepath.Join(t.Point, rel)
	start := time.Now()
	err := testCanary(ctx, e, t, c, rel, name)
	if errors.Is(err, fs.ErrExist) {
		return wrongErr("canary", "rm "+cli.Quote(name), err) // another process created it
	}
	if rerr := os.Remove(name); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) && err == nil {
		err = fmt.Errorf("remove it: %w", rerr)
	}
	if errors.Is(err, fs.ErrPermission) {
		return good("canary", "not tested, because the project's top directory is not writable")
	}
	if err == nil {
		err = awaitVersion(ctx, c, wire.LogQuery{Path: []byte(rel), Limit: 1}, func(v wire.Version) bool { return v.Deleted })
	}
	if err != nil {
		return wrongErr("canary", "cachebro status --dir "+cli.Arg(t.Root), fmt.Errorf("a file written in the project (%s): %w", rel, err))
	}
	return good("canary", "a file was written, recorded, undone and removed again (%d ms)", time.Since(start).Milliseconds())
}

// canaryBefore and canaryAfter are the contents that the canary file gets, in this order.
const canaryBefore, canaryAfter = "one\n", "two\n"

// testCanary writes both contents and undoes the second one.
func testCanary(ctx context.Context, e *cli.Env, t cli.Target, c *wire.Client, rel, name string) error {
	for i, content := range [][]byte{[]byte(canaryBefore), []byte(canaryAfter)} {
		// Never follow a symlink that somebody has put there.
		flag := os.O_WRONLY | os.O_TRUNC | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
		if i == 0 {
			flag = os.O_WRONLY | os.O_CREATE | os.O_EXCL
		}
		f, err := os.OpenFile(name, flag, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
		if err != nil {
			return err
		}
		err = awaitVersion(ctx, c, wire.LogQuery{Path: []byte(rel), Limit: 1}, func(v wire.Version) bool {
			return v.Hash == text.Hash(content)
		})
		if err != nil {
			return err
		}
	}
	plan, err := wire.Call[wire.Plan](ctx, c, wire.MPlan, wire.PlanRequest{Kind: "revert", Path: []byte(rel), Steps: 1})
	if err != nil {
		return fmt.Errorf("plan its undo: %w", err)
	}
	if len(plan.Steps) != 1 || len(plan.Conflicts)+len(plan.Lost) > 0 {
		return fmt.Errorf("the plan of its undo has %d steps and %d conflicts", len(plan.Steps), len(plan.Conflicts)+len(plan.Lost))
	}
	res, err := history.Apply(ctx, e, t, c, plan, false)
	if err != nil {
		return fmt.Errorf("undo it: %w", err)
	}
	if len(res.Failed) > 0 {
		return fmt.Errorf("undo it: %s", res.Failed[0].Why)
	}
	now, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if string(now) != canaryBefore {
		return fmt.Errorf("after the undo it holds %q, not %q", now, canaryBefore)
	}
	return nil
}

func awaitVersion(ctx context.Context, c *wire.Client, q wire.LogQuery, fits func(wire.Version) bool) error {
	for deadline := time.Now().Add(canaryWithin); ; {
		a, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, q)
		if err != nil && !errors.Is(err, wire.ErrNotFound) {
			return err
		}
		if err == nil && len(a.Versions) > 0 && fits(a.Versions[0]) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no version of it was seen within %s", canaryWithin)
		}
		if !loop.Pause(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}
