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
		Long: `Mounts the project if it is not, enters the mount and runs the command there as a
session of its own, so that log, working-set and undo --session know what it and
its children did. The exit status is the command's.

claude gets cachebro's hooks and MCP server on its command line; nothing has to
be configured.

Outside of the mount, and where nothing can be mounted at all, a net keeps what the
command and its children overwrite, remove, rename or change: undo --session, --prompt
and undo of an action take that back too. The mount sees more, so it is used where it
can be. What the net cannot do:
` + NetLimits() + `
With --private only this command sees the overlay, in a mount namespace of its
own: it needs no fusermount3, and nothing can be left behind. Where the project
cannot be mounted for all, that is tried, and said; where not even that can be, an
agent is started with the hooks alone: its reads still save.`,
		Example: `  cachebro run -- claude
  cachebro run -- make test
  cachebro run --private -- sh
  cachebro run --allow-sudo -- sh`,
		Annotations: cli.OwnSignals,
		Args:        e.Args(1, -1),
	}

	fs := cmd.Flags()
	fs.SetInterspersed(false)
	private := fs.Bool("private", false, "mount where only this command sees it")
	exact := fs.Bool("exact", false, "mount this directory itself, not the top level of its git work tree")
	bare := fs.Bool("bare", false, "add nothing to the command line of a known client")
	beside := fs.Bool("beside", false, "although a process has a file of the project open for reading and writing, mapped or locked")
	sudo := fs.Bool("allow-sudo", false, "let set-uid programs have their rights; nothing outside of the mount is kept then")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
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
			dressed, err := dress(e, client, project, args)
			if err != nil {
				return err
			}
			if len(dressed) > len(args) { // the plugin, if there is one, steps back
				e.Vars = append(e.Vars, "CACHEBRO_HOOKS=run")
			}
			args = dressed
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
			return s.stepDown(ctx, why, mounting.MountFlags{Exact: *exact, Private: true, Beside: *beside}, ".", len(args) > words)
		}
		return s.run(ctx)
	}
	return cmd
}

// stepDown is called when the project cannot be mounted for all. It tries a mount for this
// command alone, then the net without a mount, then none, which helps an agent with hooks.
func (s *session) stepDown(ctx context.Context, why error, f mounting.MountFlags, dir string, hooked bool) error {
	m, err := mounting.PlanMount(s.Env, dir, f)
	if err == nil && !m.Already {
		s.plan = m
		fmt.Fprintf(s.Stderr, "note: only this command sees the mount, because %s\n", cli.OneLine(why.Error()))
		began, err := s.runPrivate(ctx)
		if began {
			return err
		}
		fmt.Fprintf(s.Stderr, "note: that failed: %s\n", cli.OneLine(err.Error()))
	}
	if !s.noNet {
		fmt.Fprintf(s.Stderr, "note: no mount: %s\n", cli.OneLine(why.Error()))
		if hint := cli.HintOf(why); hint != "" {
			fmt.Fprintln(s.Stderr, "hint: "+hint)
		}
		s.unmounted = true
		return s.run(ctx)
	}
	if !hooked {
		return why
	}
	fmt.Fprintf(s.Stderr, "note: only hooks are used: %s\n", cli.OneLine(why.Error()))
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
	// unmounted: nothing is mounted, so the net also keeps what it destroys in the project.
	unmounted bool
	watch     *outside.Watch // nil: nobody sees its calls
}

// sessionPrefix begins the ids of sessions that run begins.
const sessionPrefix = "run-"

func newSession() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return sessionPrefix + hex.EncodeToString(b[:])
}

// inside returns the caller's directory as a path in the mount. The command enters it
// afresh, because the caller may still stand in the directory below the mount.
func (s *session) inside() string {
	switch {
	case s.Dir != "" && mounts.Within(s.Dir, s.plan.Root):
		return filepath.Join(s.plan.Mountpoint, mounts.Rel(s.Dir, s.plan.Root))
	case s.Dir != "" && mounts.Within(s.Dir, s.plan.Mountpoint):
		return s.Dir
	}
	return s.plan.Mountpoint
}

// run starts the command, passes signals on, and registers the session.
func (s *session) run(ctx context.Context) error {
	c, err := s.Connect(ctx, s.plan.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = s.Paths().JoinSession(s.id, s.plan.Root) // the user's own history looks up there where a session works
	s.note(ctx, c, wire.SessionEvent{Event: "start", Source: "startup"})
	s.takeStock(ctx, c)
	err = s.spawn()
	s.note(ctx, c, wire.SessionEvent{Event: "end"})
	return err
}

// takeStock makes the history of a project that is not mounted take in earlier changes before
// the command starts. Found later, they would seem to be the command's.
func (s *session) takeStock(ctx context.Context, c *wire.Client) {
	if !s.unmounted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, takeStockWithin)
	defer cancel()
	if _, err := c.Call(ctx, wire.MLog, wire.LogQuery{Limit: 1}, nil, nil); err != nil {
		fmt.Fprintf(s.Stderr, "note: earlier changes may be taken for the command's: %s\n", cli.OneLine(err.Error()))
	}
}

// takeStockWithin bounds how long a command waits for takeStock.
const takeStockWithin = 10 * time.Second

// note tells the daemon of the session. If the daemon does not listen, the command runs all
// the same.
func (s *session) note(ctx context.Context, c *wire.Client, ev wire.SessionEvent) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ev.Session, ev.Client, ev.PID, ev.Cwd = s.id, s.client, os.Getpid(), s.inside()
	if _, err := c.Call(ctx, wire.MSession, ev, nil, nil); err != nil {
		fmt.Fprintf(s.Stderr, "note: the session could not be registered: %s\n", cli.OneLine(err.Error()))
	}
}

// childVars returns the environment of the command.
func (s *session) childVars() []string {
	var vars []string
	for _, kv := range s.Vars {
		if !strings.HasPrefix(kv, "PWD=") && !strings.HasPrefix(kv, "CACHEBRO_SESSION=") {
			vars = append(vars, kv)
		}
	}
	return append(vars, "PWD="+s.inside(), "CACHEBRO_SESSION="+s.id)
}

// spawn runs the command to its end. It stays in our process group: the
// terminal's ^C and ^Z reach it without us, other signals are passed on.
func (s *session) spawn() error {
	signals, ignore := catch(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer ignore()
	cmd := &exec.Cmd{Path: s.path, Args: s.args, Dir: s.inside(), Env: s.childVars(), Stdin: s.Stdin, Stdout: visible.Raw(s.Stdout), Stderr: visible.Raw(s.Stderr)}
	err := s.start(cmd)
	defer s.over()
	if err != nil {
		return fmt.Errorf("run %s: %w", cli.Quote(s.args[0]), err)
	}
	stop := passOn(signals, cmd.Process)
	err = cmd.Wait()
	stop()
	return cli.ChildStatus(err)
}

// catch catches signals from now on; ignore restores their effect.
func catch(which ...os.Signal) (signals chan os.Signal, ignore func()) {
	signals = make(chan os.Signal, 16)
	signal.Notify(signals, which...)
	return signals, func() { signal.Stop(signals) }
}

// passOn sends the child each signal that we get, until stop is called.
func passOn(signals <-chan os.Signal, child *os.Process) (stop func()) {
	done, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				// The terminal sends these two to the whole group itself.
				if sig != syscall.SIGINT && sig != syscall.SIGQUIT || !cli.Foreground() {
					_ = child.Signal(sig)
				}
			}
		}
	}()
	return func() { close(done); <-passed }
}
