//go:build linux && (amd64 || arm64)

package running

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/outside"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// NetCommand returns the command cachebro net.
func NetCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "net", Short: "keeps what watched commands destroy outside of mounts (started by cachebro run)",
		Annotations:        cli.OwnSignals,
		Hidden:             true,
		DisableFlagParsing: true,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cli.AsksForHelp(args) {
			return cmd.Help()
		}
		return serveNet(e)
	}
	return cmd
}

// takeOverWithin is how long a recorder waits for the end of the one before it.
const takeOverWithin = 10 * time.Second

func serveNet(e *cli.Env) error {
	paths := e.Paths()
	socket, err := paths.NetSocket()
	if err != nil {
		return err
	}
	base, err := paths.StateBase()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w := &daemonWaker{env: e, log: logger, lastWake: map[string]time.Time{}}
	o := outside.Options{
		Paths: paths, Places: outside.NewPlaces(paths.Home, e.Getenv, base, filepath.Dir(socket)), Ignore: ignore.Options{ExcludesFile: e.ExcludesFile()},
		Version: cli.Version, Logger: logger, Stirred: w.wake,
	}
	var r *outside.Recorder
	for deadline := time.Now().Add(takeOverWithin); ; time.Sleep(20 * time.Millisecond) {
		r, err = outside.New(o)
		if !errors.Is(err, spool.ErrLocked) || time.Now().After(deadline) {
			break
		}
		if c, derr := net.Dial("unixpacket", socket); derr == nil { // another recorder, started at the same time, serves
			c.Close()
			fmt.Fprintln(os.Stdout, "ready")
			return nil
		}
	}
	if err != nil {
		return err
	}
	_ = os.Remove(socket) // left by a recorder that was killed
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), r.Close())
	}
	fmt.Fprintln(os.Stdout, "ready")
	err = outside.Serve(r, l)
	w.wait.Wait()
	return err
}

// daemonWaker makes the daemons take in what is spooled.
type daemonWaker struct {
	env  *cli.Env
	log  *slog.Logger
	wait sync.WaitGroup

	mu       sync.Mutex // guards lastWake
	lastWake map[string]time.Time
}

// wakeEvery is shorter than the time after which an idle daemon ends.
const wakeEvery = 20 * time.Second

func (w *daemonWaker) wake(root string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.lastWake[root]) < wakeEvery {
		return
	}
	w.lastWake[root] = time.Now()
	w.wait.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wakeEvery)
		defer cancel()
		c, err := w.env.ConnectAs(ctx, root, "net", wire.Timeouts{})
		if err != nil {
			w.log.Warn("the store daemon does not answer", "root", root, "error", err)
		}
		if c != nil {
			c.Close()
		}
	})
}

// limitsTold names the file that says that this user has been told of the limits.
const limitsTold = "limits-told"

// sayLimits says that the net is at work, and once to each user what it cannot do.
func (s *session) sayLimits() {
	if s.unmounted {
		fmt.Fprintln(s.Stderr, "note: the net keeps what this command and its children change, here and elsewhere; cachebro undo takes it back")
	}
	state, err := s.Paths().State(wire.OutsideRoot)
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(state, limitsTold), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	f.Close()
	fmt.Fprintln(s.Stderr, "note: a net keeps what this command destroys outside of mounts; cachebro undo takes it back. Its limits, said this once:")
	fmt.Fprint(s.Stderr, NetLimits())
}

// setUID reports whether a command needs the rights of a set-uid program.
func setUID(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&os.ModeSetuid != 0 && os.Geteuid() != 0
}

// start starts the command under the net, which watches its system calls and keeps what it
// destroys. Where that is impossible, it says why and starts the command without the net.
func (s *session) start(cmd *exec.Cmd) error {
	if s.noNet {
		return cmd.Start()
	}
	if setUID(s.path) {
		fmt.Fprintf(s.Stderr, "note: %s has set-uid rights, which it would lose: it runs without the net\n", cli.Quote(s.path))
		return cmd.Start()
	}
	seen := true
	trouble := func(err error) {
		seen = false
		s.unwatched(err)
	}
	w, failed, err := outside.Begin(s.Paths(), func() error { return outside.Start(s.Paths(), s.Exe, s.Vars) }, func() error {
		if seen {
			s.sayLimits()
		}
		return cmd.Start()
	}, trouble, s.restarted)
	if err != nil {
		s.unwatched(err)
		return cmd.Start()
	}
	s.watch = w
	return failed
}

// over is called when the command has ended, or could not be started.
func (s *session) over() {
	if s.watch == nil {
		return
	}
	unseen, err := s.watch.End(s.Exe)
	if unseen > 0 {
		fmt.Fprintf(s.Stderr, "note: %s of this command could not be looked at: undo may not know what was changed by that\n", text.Count(unseen, "system call"))
	}
	if err != nil {
		fmt.Fprintf(s.Stderr, "note: what the command left may not be known: %s\n", cli.OneLine(err.Error()))
	}
}

// restarted reports that the net's recorder was replaced. Nothing that it saw is lost.
func (s *session) restarted() {
	fmt.Fprintf(s.Stderr, "note: the net's recorder died at %s, and another one continues where it stopped\n", s.Now().Format(time.TimeOnly))
}

func (s *session) unwatched(err error) {
	if errors.Is(err, unix.EBUSY) {
		if strings.HasPrefix(s.Getenv("CACHEBRO_SESSION"), sessionPrefix) {
			return // the run around this one sees it
		}
		err = errors.New("another program already watches its system calls, and the kernel allows only one")
	}
	fmt.Fprintf(s.Stderr, "note: what the command destroys outside of mounts is not kept: %s\n", cli.OneLine(err.Error()))
}
