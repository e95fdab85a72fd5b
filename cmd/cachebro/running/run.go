package running

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/outside"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"

	"github.com/spf13/cobra"
)

// RunCommand returns the command cachebro run.
func RunCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run [--] COMMAND…", Short: "run a command, or an agent, on the watched project",
		Long: `Mounts the project if it is not mounted yet, enters the mount and runs the command
there as a session of its own, so that log, working-set and undo --session know what
the command and its children did. The exit status is that of the command.

If the command is claude, cachebro's hooks and MCP server are added to its command
line; nothing has to be configured.

For files that are not on the mount, and for the project itself if it cannot be
mounted, a net watches the system calls of the command and its children: it saves a
copy of each file before they overwrite, remove, rename or change it. undo --session,
undo --prompt and the undo of an action restore those files too. The mount sees more
than the net, so the project is mounted if that is possible. Limits of the net:
` + netLimits() + `
With --private only this command sees the overlay, in a mount namespace of its own.
That needs no fusermount3, and no mount can be left behind. If the project cannot be
mounted for everybody, run prints a note and tries this. If a private mount fails as
well, the command runs under the net alone. If the net is not available either, an
agent runs with the hooks alone, so repeated reads still save tokens.`,
		Example: `  cachebro run -- claude
  cachebro run -- make test
  cachebro run --private -- sh
  cachebro run --allow-sudo -- sh`,
		Annotations: cli.OwnSignals,
		Args:        e.Args(1, -1),
	}

	fs := cmd.Flags()
	fs.SetInterspersed(false)
	private := fs.Bool("private", false, "mount the project for this command alone")
	exact := fs.Bool("exact", false, "mount this directory itself, not the top level of its git work tree")
	bare := fs.Bool("bare", false, "do not add hooks or the MCP server to the command line of claude")
	beside := fs.Bool("beside", false, "mount even if a process has a file of the project open for reading and writing, mapped or locked")
	sudo := fs.Bool("allow-sudo", false, "run without the net, so that set-uid programs get their rights; files that are not on the mount are not saved")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		path, err := exec.LookPath(args[0])
		if err != nil {
			return cli.Hintf("echo \"$PATH\"", "%s: no such command", cli.Quote(args[0]))
		}
		path, err = filepath.Abs(path)
		if err != nil {
			return err
		}
		m, why := mounting.PlanMount(e, ".", mounting.MountFlags{Exact: *exact, Private: *private, Beside: *beside})
		if why != nil && (*private || !errors.As(why, new(*mounting.NoFuse))) {
			return why
		}
		for _, note := range m.Notes {
			fmt.Fprintln(e.Stderr, "note: "+note)
		}
		client, words := filepath.Base(args[0]), len(args)
		if !*bare {
			project := m.Root
			if e.Dir != "" && (mounts.Within(e.Dir, m.Root) || mounts.Within(e.Dir, m.Mountpoint)) {
				project = e.Dir // where the client is started
			}
			extended, err := addClientFlags(e, client, project, args)
			if err != nil {
				return err
			}
			if len(extended) > len(args) { // hooks and a server were added, so make an installed plugin inactive
				e.Vars = append(e.Vars, "CACHEBRO_HOOKS=run")
			}
			args = extended
		}
		s := session{Env: e, plan: m, path: path, args: args, client: client, id: newSession(), noNet: *sudo || !outside.Possible()}
		if *private && !m.Already {
			_, err := s.runPrivate(ctx)
			return err
		}
		if why == nil && !m.Already {
			_, why = mounting.Launch(ctx, e, m)
			if why == nil {
				mounting.SayPath(e, e.Stderr)
				fmt.Fprintf(e.Stderr, "mounted %s (leave with: cd / && cachebro umount %s)\n", cli.Quote(m.Root), cli.Arg(m.Mountpoint))
			}
		}
		if why != nil {
			return s.runUnmounted(ctx, why, mounting.MountFlags{Exact: *exact, Private: true, Beside: *beside}, ".", len(args) > words)
		}
		return s.run(ctx)
	})
}

// runUnmounted runs the command if the project cannot be mounted for all processes. It tries a mount
// for this command alone, then the net without a mount. If both are impossible, it runs the command
// without them, but only if hooked is true, because hooks alone still help an agent.
func (s *session) runUnmounted(ctx context.Context, why error, f mounting.MountFlags, dir string, hooked bool) error {
	m, err := mounting.PlanMount(s.Env, dir, f)
	if err == nil && !m.Already {
		s.plan = m
		fmt.Fprintf(s.Stderr, "note: the project is mounted for this command alone if possible, because %s\n", cli.OneLine(why.Error()))
		began, err := s.runPrivate(ctx)
		if began {
			return err
		}
		fmt.Fprintf(s.Stderr, "note: the private mount failed: %s\n", cli.OneLine(err.Error()))
	}
	if !s.noNet {
		fmt.Fprintf(s.Stderr, "note: the project is not mounted: %s\n", cli.OneLine(why.Error()))
		if hint := cli.HintOf(why); hint != "" {
			fmt.Fprintln(s.Stderr, "hint: "+hint)
		}
		s.unmounted = true
		return s.run(ctx)
	}
	if !hooked {
		return why
	}
	fmt.Fprintf(s.Stderr, "note: only hooks are used, because %s\n", cli.OneLine(why.Error()))
	if hint := cli.HintOf(why); hint != "" {
		fmt.Fprintln(s.Stderr, "hint: "+hint)
	}
	return s.run(ctx)
}

// session is one command and its process tree.
type session struct {
	*cli.Env
	plan   mounting.PlannedMount
	path   string
	args   []string
	client string
	id     string
	noNet  bool // run the command without the net
	// unmounted is true if nothing is mounted. The net then also saves files of the project.
	unmounted bool
	watch     *outside.Watch // the watch of the command; nil without the net
	daemon    *wire.Client   // the connection to the project's daemon; nil until the session is registered
}

const sessionPrefix = "run-"

func newSession() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return sessionPrefix + hex.EncodeToString(b[:])
}

// inside returns the caller's working directory as a path in the mount. The command enters that
// path, because the caller's working directory may be the directory that the mount covers.
func (s *session) inside() string {
	switch {
	case s.Dir != "" && mounts.Within(s.Dir, s.plan.Root):
		return filepath.Join(s.plan.Mountpoint, mounts.Rel(s.Dir, s.plan.Root))
	case s.Dir != "" && mounts.Within(s.Dir, s.plan.Mountpoint):
		return s.Dir
	}
	return s.plan.Mountpoint
}

// run starts the command, passes signals on, and registers the session. Without a mount, the
// session is registered just before the first change, so that a command that only reads starts no
// daemon. If the project's history cannot be stored, run reports that before the start.
func (s *session) run(ctx context.Context) error {
	if other := s.plan.Elsewhere; other != nil {
		fmt.Fprintf(s.Stderr, "note: %s\nhint: %s\n", cli.OneLine(other.Error()), cli.HintOf(other))
	} else {
		_, noPlace := s.Paths().MakeState(s.plan.Root)
		if !s.unmounted || noPlace != nil {
			if err := s.register(ctx); err != nil {
				return err
			}
		}
	}
	err := s.spawn(ctx)
	if s.daemon != nil {
		s.note(ctx, wire.SessionEvent{Event: "end"})
		s.daemon.Close()
	}
	return err
}

// register connects to the project's daemon and registers the session.
func (s *session) register(ctx context.Context) error {
	c, err := s.Connect(ctx, s.plan.Root)
	if err != nil {
		return err
	}
	s.daemon = c
	_ = s.Paths().JoinSession(s.id, s.plan.Root) // lets the user's own history find the session's projects
	s.note(ctx, wire.SessionEvent{Event: "start", Source: "startup"})
	s.recordEarlier(ctx)
	return nil
}

// registerLate is register for a command that is already running.
func (s *session) registerLate(ctx context.Context) {
	if s.daemon != nil || s.plan.Elsewhere != nil {
		return
	}
	if err := s.register(ctx); err != nil {
		fmt.Fprintf(s.Stderr, "note: the session could not be registered: %s\n", cli.OneLine(err.Error()))
	}
}

// recordEarlier makes the history of an unmounted project record earlier changes before the command
// changes anything. Changes found later would be attributed to the command.
func (s *session) recordEarlier(ctx context.Context) {
	if !s.unmounted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, takeStockWithin)
	defer cancel()
	if _, err := s.daemon.Call(ctx, wire.MLog, wire.LogQuery{Limit: 1}, nil, nil); err != nil {
		fmt.Fprintf(s.Stderr, "note: earlier changes may be attributed to this command: %s\n", cli.OneLine(err.Error()))
	}
}

const takeStockWithin = 10 * time.Second

// note reports a session event to the daemon. The command runs even if the daemon does not answer.
func (s *session) note(ctx context.Context, ev wire.SessionEvent) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ev.Session, ev.Client = s.id, s.client
	ev.PID, ev.Cwd = os.Getpid(), s.inside()
	a, err := wire.Call[wire.SessionAnswer](ctx, s.daemon, wire.MSession, ev)
	if err == nil && a.Unsaved != "" {
		err = errors.New(a.Unsaved)
	}
	if err != nil {
		fmt.Fprintf(s.Stderr, "note: the session could not be registered: %s\n", cli.OneLine(err.Error()))
	}
}

func (s *session) childVars() []string {
	var vars []string
	for _, kv := range s.Vars {
		if !strings.HasPrefix(kv, "PWD=") && !strings.HasPrefix(kv, "CACHEBRO_SESSION=") {
			vars = append(vars, kv)
		}
	}
	return append(vars, "PWD="+s.inside(), "CACHEBRO_SESSION="+s.id)
}

// spawn runs the command and waits for its end. The command stays in this process group, so that
// the terminal's ^C and ^Z reach it directly. Other signals are passed on.
func (s *session) spawn(ctx context.Context) error {
	signals, ignore := catch(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer ignore()
	cmd := &exec.Cmd{Path: s.path, Args: s.args, Dir: s.inside(), Env: s.childVars(), Stdin: s.Stdin, Stdout: visible.Raw(s.Stdout), Stderr: visible.Raw(s.Stderr)}
	err := s.start(ctx, cmd)
	defer s.endWatch()
	if err != nil {
		return fmt.Errorf("run %s: %w", cli.Quote(s.args[0]), err)
	}
	stop := passOn(signals, cmd.Process)
	err = cmd.Wait()
	stop()
	return cli.ChildStatus(err)
}

// catch delivers the given signals to a channel. ignore restores their default effect.
func catch(which ...os.Signal) (signals chan os.Signal, ignore func()) {
	signals = make(chan os.Signal, 16)
	signal.Notify(signals, which...)
	return signals, func() { signal.Stop(signals) }
}

// passOn sends each received signal to the child until stop is called.
func passOn(signals <-chan os.Signal, child *os.Process) (stop func()) {
	done, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				// The terminal itself sends these two to the whole process group.
				if sig != syscall.SIGINT && sig != syscall.SIGQUIT || !cli.Foreground() {
					_ = child.Signal(sig)
				}
			}
		}
	}()
	return func() { close(done); <-passed }
}
