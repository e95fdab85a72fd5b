package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"cachebro/fusefs/ignore"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/search/embed"
	"cachebro/store"
	"cachebro/store/daemon"
	"cachebro/store/wire"

	"github.com/spf13/pflag"
)

// The descriptors that a parent hands down: Report on the first, the source
// directory on the second, an already mounted /dev/fuse on the third, the ledger
// of the mount on the fourth, a socket to the other process on the fifth.
const (
	reportFD = 3
	sourceFD = 4
	deviceFD = 5
	ledgerFD = 6
	socketFD = 7
)

// configFlags are how one process describes the mount to the next.
func (e *env) configFlags(fs *pflag.FlagSet) *supervisor.Config {
	c := &supervisor.Config{Exe: e.exe, Version: version, Env: e.vars, Paths: e.paths()}
	fs.StringVar(&c.Root, "root", "", "the project's root")
	fs.StringVar(&c.Mountpoint, "mountpoint", "", "where to mount")
	fs.StringVar(&c.State, "state", "", "state directory")
	fs.BoolVar(&c.AllowOther, "allow-other", false, "let other users in")
	fs.BoolVar(&c.ReadOnly, "read-only", false, "refuse writes")
	fs.BoolVar(&c.Private, "private", false, "in a mount namespace of its own")
	return c
}

func (e *env) checkConfig(c *supervisor.Config) error {
	if !filepath.IsAbs(c.Root) || !filepath.IsAbs(c.Mountpoint) || !filepath.IsAbs(c.State) {
		return e.usagef("%s is started by cachebro mount, with absolute --root, --mountpoint and --state", e.cmd.name)
	}
	return nil
}

func superviseCommand() command {
	return command{
		name: "supervise", short: "watches over a mount (started by cachebro mount)", ownSignals: true,
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			c := e.configFlags(fs)
			adopt := fs.Int("adopt", 0, "watch over this mountd, which runs already")
			report := fs.Bool("report", false, "tell descriptor 3 when the mount answers")
			ledger := fs.Bool("ledger", false, "with --adopt: descriptors 5 to 7 are what it can be replaced with")
			if _, err := e.parse(fs, 0, 0); err != nil {
				return err
			}
			if err := e.checkConfig(c); err != nil {
				return err
			}
			signal.Ignore(syscall.SIGHUP)
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			logger := slog.New(slog.NewTextHandler(e.stderr, nil)).With("pid", os.Getpid())
			if *adopt > 0 {
				from := supervisor.Handed{Source: inherited(sourceFD, c.Root)}
				if *ledger {
					from.Device, from.Ledger, from.Sock = inherited(deviceFD, "device"), inherited(ledgerFD, "ledger"), inherited(socketFD, "mountd")
				}
				return supervisor.Adopt(ctx, *c, *adopt, from, logger)
			}
			var w io.WriteCloser
			if *report {
				w = inherited(reportFD, "report")
			}
			return supervisor.Supervise(ctx, *c, w, logger)
		},
	}
}

func mountdCommand() command {
	return command{
		name: "mountd", short: "serves a mount (started by cachebro supervise)", ownSignals: true,
		run: func(_ context.Context, e *env) error {
			fs := e.flags()
			c := e.configFlags(fs)
			parent := fs.Int("supervisor", 0, "pid of the process that watches over this one")
			device := fs.Bool("device", false, "descriptor 5 is a mounted /dev/fuse")
			ledger := fs.Bool("ledger", false, "descriptors 6 and 7 are the ledger and the supervisor's socket")
			takeOver := fs.Bool("take-over", false, "go on where a mountd was killed")
			if _, err := e.parse(fs, 0, 0); err != nil {
				return err
			}
			if err := e.checkConfig(c); err != nil {
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
			// fusefs names the mount after the source's file name.
			c.Ignore.ExcludesFile = e.excludesFile()
			source := inherited(sourceFD, c.Root)
			defer source.Close()
			if fi, err := source.Stat(); err != nil || !fi.IsDir() {
				return e.usagef("mountd is started by cachebro supervise, which hands it the source directory")
			}
			logger := slog.New(slog.NewTextHandler(e.stderr, nil)).With("pid", os.Getpid())
			from.Source = source
			return supervisor.Serve(*c, from, *parent, inherited(reportFD, "report"), logger)
		},
	}
}

// inherited is a descriptor that our parent handed down; our own children do
// not get it.
func inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

func daemonCommand() command {
	return command{
		name: "daemon", short: "owns a project's store (started when it is needed)", ownSignals: true,
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			root := fs.String("root", "", "the project's root")
			if _, err := e.parse(fs, 0, 0); err != nil {
				return err
			}
			if !filepath.IsAbs(*root) {
				return e.usagef("daemon: --root must be an absolute path")
			}
			limits, err := e.storeLimits()
			if err != nil {
				return err
			}
			kept, err := e.resultSettings()
			if err != nil {
				return err
			}
			limits.Siblings = func() []store.Sibling { return e.siblings(*root) }
			o := daemon.Options{
				Root: *root, Paths: e.paths(), Version: version, Ignore: ignore.Options{ExcludesFile: e.excludesFile()}, Store: limits, Results: kept, Tidy: e.tidy,
			}
			// A program that turns texts into vectors, for search by meaning.
			if c := embed.New(e.getenv("CACHEBRO_EMBEDDER")); c != nil {
				defer c.Close()
				o.Embedder = c
			}
			err = daemon.Run(ctx, o)
			if errors.Is(err, wire.ErrLocked) {
				return hintf("cachebro status "+arg(*root), "%w", err)
			}
			return err
		},
	}
}
