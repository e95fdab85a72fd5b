package mounting

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts/supervisor"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The descriptors that supervise and mountd inherit: the pipe for the Report, the source directory,
// an already mounted /dev/fuse, the ledger of the mount, and the socket between the two processes.
const (
	reportFD = 3
	sourceFD = 4
	deviceFD = 5
	ledgerFD = 6
	socketFD = 7
)

// ConfigFlags adds the flags by which one process passes the configuration of the mount to the
// next.
func ConfigFlags(e *cli.Env, fs *pflag.FlagSet) *supervisor.Config {
	c := &supervisor.Config{Exe: e.Exe, Version: cli.Version, Env: e.Vars, Paths: e.Paths(), NoCommands: e.Getenv("CACHEBRO_ARGV") == "off"}
	fs.StringVar(&c.Root, "root", "", "the project's root")
	fs.StringVar(&c.Mountpoint, "mountpoint", "", "where to mount")
	fs.StringVar(&c.State, "state", "", "state directory")
	fs.BoolVar(&c.AllowOther, "allow-other", false, "let other users in")
	fs.BoolVar(&c.ReadOnly, "read-only", false, "refuse writes")
	fs.BoolVar(&c.Private, "private", false, "the mount is in a mount namespace of its own")
	return c
}

// CheckConfig rejects command lines that do not come from another cachebro process.
func CheckConfig(e *cli.Env, c *supervisor.Config) error {
	if !filepath.IsAbs(c.Root) || !filepath.IsAbs(c.Mountpoint) || !filepath.IsAbs(c.State) {
		return e.Usagef("%s is started by cachebro mount, with absolute --root, --mountpoint and --state", e.Cmd.Name())
	}
	return nil
}

// SuperviseCommand returns the command cachebro supervise.
func SuperviseCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "supervise", Short: "watches over a mount (started by cachebro mount)",
		Annotations: cli.OwnSignals,
		Hidden:      true,
		Args:        e.Args(0, 0),
	}

	fs := cmd.Flags()
	c := ConfigFlags(e, fs)
	adopt := fs.Int("adopt", 0, "watch over this mountd, which runs already")
	report := fs.Bool("report", false, "report on descriptor 3 when the mount answers")
	ledger := fs.Bool("ledger", false, "with --adopt: descriptors 5 to 7 are those with which a successor of mountd can be started")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		if err := CheckConfig(e, c); err != nil {
			return err
		}
		signal.Ignore(syscall.SIGHUP)
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		logger := slog.New(slog.NewTextHandler(e.Stderr, nil)).With("pid", os.Getpid())
		if *adopt > 0 {
			from := supervisor.Handed{Source: inherited(sourceFD, c.Root)}
			if *ledger {
				from.Device = inherited(deviceFD, "device")
				from.Ledger = inherited(ledgerFD, "ledger")
				from.Sock = inherited(socketFD, "mountd")
			}
			return supervisor.Adopt(ctx, *c, *adopt, from, logger)
		}
		var w io.WriteCloser
		if *report {
			w = inherited(reportFD, "report")
		}
		return supervisor.Supervise(ctx, *c, w, logger)
	})
}

// MountdCommand returns the command cachebro mountd.
func MountdCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mountd", Short: "serves a mount (started by cachebro supervise)",
		Annotations: cli.OwnSignals,
		Hidden:      true,
		Args:        e.Args(0, 0),
	}

	fs := cmd.Flags()
	c := ConfigFlags(e, fs)
	parent := fs.Int("supervisor", 0, "pid of the process that watches over this one")
	device := fs.Bool("device", false, "descriptor 5 is a mounted /dev/fuse")
	ledger := fs.Bool("ledger", false, "descriptors 6 and 7 are the ledger and the supervisor's socket")
	takeOver := fs.Bool("take-over", false, "continue after a mountd was killed")
	return cli.Does(cmd, func(_ context.Context, _ []string) error {
		if err := CheckConfig(e, c); err != nil {
			return err
		}
		var from supervisor.Handed
		if *device || *takeOver {
			syscall.CloseOnExec(deviceFD)
			from.FD = deviceFD
		}
		if *ledger {
			from.Ledger, from.Sock = inherited(ledgerFD, "ledger"), inherited(socketFD, "supervisor")
		}
		from.TakeOver = *takeOver
		c.Ignore.ExcludesFile = e.ExcludesFile()
		source := inherited(sourceFD, c.Root) // the mount is named after this file
		defer source.Close()
		if fi, err := source.Stat(); err != nil || !fi.IsDir() {
			return e.Usagef("mountd is started by cachebro supervise, which hands it the source directory")
		}
		logger := slog.New(slog.NewTextHandler(e.Stderr, nil)).With("pid", os.Getpid())
		from.Source = source
		return supervisor.Serve(*c, from, *parent, inherited(reportFD, "report"), logger)
	})
}

// inherited returns a descriptor that the parent process passed on. It is closed in this process's
// own children.
func inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}
