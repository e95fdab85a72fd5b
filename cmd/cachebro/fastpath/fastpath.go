// Package fastpath answers requests before the rest of the program is initialised. These are an
// agent's hook events and requests for its status line, and git's fsmonitor queries (which files
// have changed).
//
// One tool call of an agent starts up to three hook processes, so their start must be cheap. The
// libraries for the index and the web pages build tables when their packages are initialised, even
// if they are not used. That takes two thirds of the processor time of a command that does nothing.
// Go initialises packages in the order of their paths, each after its imports. This package sorts
// before every library and imports little, so its init function runs before theirs. For a hook, that
// function is the whole program. A second binary would serve as well, but it could be forgotten,
// moved or outdated. TestFastPath checks that nothing expensive is initialised earlier.
//
// Hooks that may have to start a daemon or a mount (SessionStart, and a hook without the name of an
// event) are left to main. The package has no state and no locks.
package fastpath

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"cachebro/hooks"
	"cachebro/store/leaf/ignore"
	"cachebro/store/wire"
)

// Version is the version of cachebro; nothing else defines it.
const Version = "0.2.0"

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "hook":
		if len(args) > 0 && hooks.OnFastPath(args[0]) {
			os.Exit(answer(func(ctx context.Context) int { hooks.Run(ctx, Env(args)); return 0 }))
		}
	case "fsmonitor":
		if asksForChanges(args) {
			os.Exit(changes(args[1]))
		}
	case "statusline":
		if len(args) == 0 {
			os.Exit(answer(func(ctx context.Context) int { return hooks.RunStatusLine(ctx, Env(nil)) }))
		}
	}
}

// answer runs f. It recovers from a panic and prints nothing, because a Go panic exits with status 2,
// which would block the agent's tool call.
func answer(f func(context.Context) int) (status int) {
	debug.SetTraceback("none")
	defer func() {
		if recover() != nil {
			status = 0
		}
	}()
	return f(context.Background())
}

// changes answers git, which believes the answer only if the status is 0.
func changes(token string) (status int) {
	debug.SetTraceback("none")
	status = 1
	defer func() { _ = recover() }()
	if WriteChanges(context.Background(), Paths(os.Getenv), Dir(), token, os.Stdout) == nil {
		status = 0
	}
	return status
}

// Env returns the environment of a hook process. It does not set Start and Mount, which main sets.
// CACHEBRO_HOOK_WAIT (such as "2s") replaces wire.HookTimeouts, the timeouts of requests to the
// daemon, which are too short on a very busy machine.
func Env(args []string) hooks.Env {
	p, limits, limit := Paths(os.Getenv), wire.HookTimeouts, time.Duration(0)
	if d, err := time.ParseDuration(os.Getenv("CACHEBRO_HOOK_WAIT")); err == nil && d > 0 {
		limits, limit = wire.Timeouts{Connect: d, Answer: d}, 4*d
	}
	return hooks.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Args: args, Getenv: os.Getenv, Now: time.Now, Dir: Dir(), Paths: p,
		Dial: func(ctx context.Context, root string) (*wire.Client, error) {
			return wire.Dial(ctx, p, wire.Hello{Version: Version, Client: "hook", Root: root}, limits)
		},
		Wake:   func(ctx context.Context, root string) bool { return wake(ctx, p, root) },
		Secret: ignore.Secret, NoCommands: os.Getenv("CACHEBRO_ARGV") == "off",
		Limit: limit,
	}
}

// wake starts the daemon of a mounted project and waits until it answers requests.
func wake(ctx context.Context, p wire.Paths, root string) bool {
	exe, err := os.Executable()
	if err != nil || !wire.Mounted(ctx, p, root) {
		return false
	}
	c, err := wire.DialOrStart(ctx, p, wire.Hello{Version: Version, Client: "hook", Root: root}, wire.Timeouts{}, wire.Start{Self: exe})
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
	return err == nil
}

// Dir returns the working directory, or "" if it no longer exists. It does not use os.Getwd, which
// calls stat for $PWD. In mountd, $PWD can be on a mount that mountd does not serve yet.
func Dir() string {
	dir, err := syscall.Getwd()
	if err != nil || !filepath.IsAbs(dir) {
		return "" // the kernel says "(unreachable)" if the mount is gone
	}
	return dir
}

// Paths returns the locations of this user's sockets and state.
func Paths(getenv func(string) string) wire.Paths {
	home := getenv("HOME")
	if home == "" {
		if u, err := user.Current(); err == nil {
			home = u.HomeDir // a service or a bare container may not set HOME
		}
	}
	return wire.Paths{
		RuntimeDir: getenv("XDG_RUNTIME_DIR"), StateHome: getenv("XDG_STATE_HOME"),
		Home: home, TempDir: getenv("TMPDIR"), Override: getenv("CACHEBRO_DIR"),
	}
}
