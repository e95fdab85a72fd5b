//go:build linux && (amd64 || arm64)

package running

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// NetCommand returns the command cachebro net, which runs the recorder.
func NetCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "net", Short: "saves files before a command changes them (started by cachebro run)",
		Annotations:        cli.OwnSignals,
		Hidden:             true,
		DisableFlagParsing: true,
	}
	return cli.Does(cmd, func(_ context.Context, args []string) error {
		if cli.AsksForHelp(args) {
			return cmd.Help()
		}
		if slices.Equal(args, take) {
			return outside.Take(outside.Runner{Paths: e.Paths(), Start: func() error { return outside.Start(e.Paths(), e.Exe, e.Vars) }})
		}
		return serveNet(e)
	})
}

// take are the arguments with which cachebro net runs outside.Take.
var take = []string{"take"}

// takeOverWithin is how long a new recorder waits for the previous one to end.
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
		Version: cli.Version, Logger: logger, OnRecord: w.wake, StartDaemon: w.start,
	}
	var r *outside.Recorder
	for deadline := time.Now().Add(takeOverWithin); ; time.Sleep(20 * time.Millisecond) {
		r, err = outside.New(o)
		if !errors.Is(err, spool.ErrLocked) || time.Now().After(deadline) {
			break
		}
		if c, derr := net.Dial("unixpacket", socket); derr == nil { // another recorder, started at the same time, already serves
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

// daemonWaker wakes store daemons so that they store what the recorder has spooled.
type daemonWaker struct {
	env  *cli.Env
	log  *slog.Logger
	wait sync.WaitGroup

	mu       sync.Mutex // guards lastWake
	lastWake map[string]time.Time
}

// wakeEvery is the pause before the same daemon is woken again. It is shorter than the time after
// which an idle daemon ends.
const wakeEvery = 20 * time.Second

func (w *daemonWaker) wake(root string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.lastWake[root]) < wakeEvery {
		return
	}
	w.lastWake[root] = time.Now()
	w.wait.Go(func() { w.start(root) })
}

// start connects to the daemon of root, and starts it if it is not running.
func (w *daemonWaker) start(root string) {
	ctx, cancel := context.WithTimeout(context.Background(), wakeEvery)
	defer cancel()
	err := outside.WithTimerSlack(outside.UsualSlack, func() error { // a daemon that is started here must not inherit the recorder's
		c, err := w.env.ConnectAs(ctx, root, wire.NetClient, wire.Timeouts{})
		c.Close()
		return err
	})
	if err != nil {
		w.log.Warn("the store daemon does not answer", "root", root, "error", err)
	}
}

// printLimits prints that the net is active. The first time for a user, it also prints the net's
// limits.
func (s *session) printLimits() {
	if s.unmounted {
		fmt.Fprintln(s.Stderr, "note: the net saves files, in the project and elsewhere, before this command or its children change them; cachebro undo restores them")
	}
	if _, err := os.Lstat(s.limitsShownFile()); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	fmt.Fprintln(s.Stderr, "note: files outside of mounts are saved before this command changes them; cachebro undo restores them. Limits (this note appears only once):")
	fmt.Fprint(s.Stderr, netLimits())
}

// noteLimits records that this user was shown the net's limits. It must not be called on the thread
// that the net watches, because a change made there would start a recorder.
func (s *session) noteLimits() {
	if f, err := os.OpenFile(s.limitsShownFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		f.Close()
	}
}

// limitsShownFile returns the file whose existence means that this user was shown the net's limits.
func (s *session) limitsShownFile() string {
	state, _ := s.Paths().State(wire.OutsideRoot) // this directory exists whenever the net is active
	return filepath.Join(state, "limits-told")
}

// setUID reports whether a program is set-uid and the user is not root. Such a program would lose
// its rights under the net.
func setUID(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&os.ModeSetuid != 0 && os.Geteuid() != 0
}

// start starts the command under the net, which watches its system calls and saves files before
// the command changes them. If that is impossible, start prints why and starts the command
// without the net.
func (s *session) start(ctx context.Context, cmd *exec.Cmd) error {
	if s.noNet {
		return cmd.Start()
	}
	if setUID(s.path) {
		fmt.Fprintf(s.Stderr, "note: %s is a set-uid program and would lose its rights under the net, so it runs without the net\n", cli.Quote(s.path))
		s.registerLate(ctx)
		return cmd.Start()
	}
	w, failed, err := outside.Begin(outside.Runner{
		Paths: s.Paths(), Start: func() error { return outside.Start(s.Paths(), s.Exe, s.Vars) },
		Take: append([]string{s.Exe, "net"}, take...), Env: s.Vars,
		First: func() { s.registerLate(ctx) }, Trouble: s.unwatched, Gap: func() {
			fmt.Fprintf(s.Stderr, "note: the net's recorder died at %s; a new recorder has taken over\n", s.Now().Format(time.TimeOnly)) // nothing that the old one saw is lost
		},
	}, func() error {
		s.printLimits()
		return cmd.Start()
	})
	if err != nil {
		s.unwatched(err)
		s.registerLate(ctx)
		return cmd.Start()
	}
	s.watch = w
	s.noteLimits()
	return failed
}

// endWatch ends the watch after the command has ended or could not be started.
func (s *session) endWatch() {
	if s.watch == nil {
		return
	}
	unseen, err := s.watch.End(s.Exe)
	if unseen > 0 {
		fmt.Fprintf(s.Stderr, "note: %s of this command could not be inspected or recorded, so undo may lack the changes made by them\n", text.Count(unseen, "system call"))
	}
	if err != nil {
		fmt.Fprintf(s.Stderr, "note: the last changes of the command may not be recorded: %s\n", cli.OneLine(err.Error()))
	}
}

// unwatched prints why the net does not watch the command.
func (s *session) unwatched(err error) {
	if errors.Is(err, unix.EBUSY) {
		if strings.HasPrefix(s.Getenv("CACHEBRO_SESSION"), sessionPrefix) {
			return // the outer cachebro run watches this command too
		}
		err = errors.New("another program already watches the command's system calls, and the kernel allows only one watcher")
	}
	fmt.Fprintf(s.Stderr, "note: files outside of mounts are not saved before this command changes them: %s\n", cli.OneLine(err.Error()))
}
