package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// Launch starts a detached supervisor and waits until the mount answers or has failed. After a
// failure, no process and no mount remains.
func Launch(ctx context.Context, c Config) (Report, error) {
	log, err := openLog(c.State, "supervise.log")
	if err != nil {
		return Report{}, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return Report{}, fmt.Errorf("start the supervisor: %w", err)
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: c.Exe, Args: append(c.args("supervise"), "--report"), Env: c.Env, Dir: "/", Stdout: log, Stderr: log, ExtraFiles: []*os.File{w}, SysProcAttr: detached()}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return Report{}, fmt.Errorf("start the supervisor: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt); r.Close() })
	defer stop()
	rep := Receive(r, filepath.Join(c.State, "mountd.log"))
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	if !rep.OK {
		_ = cmd.Wait() // the supervisor cleans up before it ends
		return rep, rep.Err()
	}
	_ = cmd.Process.Release()
	return rep, nil
}

// Supervise mounts and returns when the mount has ended. If report is not nil, Supervise writes a
// Report to it and closes it. When ctx is cancelled, Supervise unmounts in an orderly way. The
// error says why there was no mount, or that the mount ended unexpectedly.
func Supervise(ctx context.Context, c Config, report io.WriteCloser, logger *slog.Logger) error {
	source, err := os.OpenFile(c.Root, os.O_RDONLY, 0)
	if err != nil {
		return tell(report, fmt.Errorf("open the source: %w", err))
	}
	defer source.Close()
	log, err := openLog(c.State, "mountd.log")
	if err != nil {
		return tell(report, err)
	}
	defer log.Close()
	h := newFDStore(logger)
	defer h.close()
	r := runner{c: c, fdStore: h, source: source, log: log, logger: logger}
	stop := context.AfterFunc(ctx, r.interrupt)
	defer stop()
	rep := r.start(false, c.Exe)
	if !rep.OK {
		h.close()
		clear(c, logger, "the mount could not be started")
		return tell(report, rep.Err())
	}
	logger.Info("mounted", "mountpoint", c.Mountpoint, "mountd", rep.PID)
	remove(filepath.Join(c.State, crashFile))
	if report != nil {
		// Ignore errors. The process that asked for the mount may have ended, and the mount must
		// stay.
		_ = rep.send(report)
		report.Close()
	}
	return r.keepServing(ctx, r.wait())
}

// Adopt supervises a mountd whose supervisor has died. from holds that supervisor's descriptors.
func Adopt(ctx context.Context, c Config, pid int, from Handed, logger *slog.Logger) error {
	log, err := openLog(c.State, "mountd.log")
	if err != nil {
		return err
	}
	defer log.Close()
	h := inherit(from.Device, from.Ledger, from.Sock, logger)
	defer h.close()
	r := runner{c: c, fdStore: h, source: from.Source, log: log, logger: logger}
	p, err := watch(pid)
	if err != nil {
		return r.keepServing(ctx, fmt.Errorf("it ended before it could be adopted: %w", err))
	}
	defer p.close()
	logger.Info("adopted", "mountd", pid, "mountpoint", c.Mountpoint)
	stop := context.AfterFunc(ctx, func() { p.signal(); r.interrupt() })
	defer stop()
	if err := p.wait(); err != nil {
		return fmt.Errorf("watch mountd %d: %w", pid, err)
	}
	// We are not mountd's parent, so there is no exit status. After an orderly unmount no mount is
	// left to clear.
	return r.keepServing(ctx, nil)
}

func ended(c Config, logger *slog.Logger, waitErr error) error {
	how := "it ended"
	if waitErr != nil {
		how = waitErr.Error()
	}
	crash, found := clear(c, logger, how)
	if !found && waitErr == nil {
		logger.Info("unmounted", "mountpoint", c.Mountpoint)
		return nil
	}
	if err := wire.WriteJSON(filepath.Join(c.State, crashFile), crash); err != nil {
		logger.Error("cannot record how the mount ended", "error", err)
	}
	logger.Error("the mount ended unexpectedly", "how", how, "must_cd", mounts.Describe(crash.Inside, 20))
	return fmt.Errorf("the mount on %s ended unexpectedly: %s", c.Mountpoint, how)
}

// clear detaches a mount that no process serves. found reports whether there was such a mount.
// clear first looks up the processes inside, while /proc still shows them.
func clear(c Config, logger *slog.Logger, how string) (crash Crash, found bool) {
	crash = Crash{Time: time.Now(), Mountpoint: c.Mountpoint, How: how}
	for range 4 { // there may be earlier dead mounts on the same directory
		overlays, err := mounts.Overlays()
		if err != nil {
			logger.Error("cannot see what is mounted", "error", err)
			return crash, found
		}
		m, ok := mounts.At(overlays, c.Mountpoint)
		if !ok || m.Source != c.Root {
			return crash, found
		}
		// Another mountd may have started in the meantime and serve a working mount here.
		if err := mounts.Answers(c.Mountpoint, 300*time.Millisecond); !errors.Is(err, mounts.ErrDead) && !errors.Is(err, mounts.ErrHung) {
			return crash, found
		}
		found = true
		crash.Inside = append(crash.Inside, mounts.Scan(c.Mountpoint, map[int]bool{m.ID: true}, true, mounts.Ours)...)
		if err := fusefs.Detach(c.Mountpoint); err != nil {
			logger.Error("cannot detach the dead mount", "mountpoint", c.Mountpoint, "error", err)
			return crash, found
		}
		logger.Warn("detached the dead mount, so the plain project is visible again", "mountpoint", c.Mountpoint)
	}
	return crash, found
}

func tell(report io.WriteCloser, err error) error {
	if report != nil {
		_ = failure(err).send(report)
		report.Close()
	}
	return err
}

// openLog opens a log of the supervisor for appending. A log larger than 5 MB is first renamed:
// ".1" is appended to its name.
func openLog(state, name string) (*os.File, error) {
	path := filepath.Join(state, name)
	if fi, err := os.Stat(path); err == nil && fi.Size() > 5<<20 {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("rotate the log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// Child is a mountd that was started directly, without a supervisor.
type Child struct {
	done chan struct{} // closed when mountd has ended
}

// StartMountd starts mountd on a mounted /dev/fuse, and returns when the mount answers.
func StartMountd(c Config, source, device *os.File) (*Child, error) {
	log, err := openLog(c.State, "mountd.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: c.Exe, Args: append(c.args("mountd"), "--device"), Env: c.Env, Dir: "/", Stdout: log, Stderr: log, ExtraFiles: []*os.File{w, source, device}, SysProcAttr: detached()}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("start mountd: %w", err)
	}
	child := &Child{done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(child.done) }()
	rep := Receive(r, filepath.Join(c.State, "mountd.log"))
	if !rep.OK {
		<-child.done
		return nil, rep.Err()
	}
	return child, nil
}

// Await waits at most limit until mountd has ended.
func (c *Child) Await(limit time.Duration) {
	select {
	case <-c.done:
	case <-time.After(limit):
	}
}
