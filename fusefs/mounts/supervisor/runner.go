package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cachebro/store/wire"
)

const (
	// heirLimit limits the time until a mountd that takes over must answer. Programs on the mount
	// wait for that long. A tenth of a second is usual.
	heirLimit = 10 * time.Second
	// heirLife is how long a mountd must live to count as successful.
	heirLife = time.Second
	heirsMax = 5 // how many mountds may fail in a row before the mount is given up
)

// Handed holds the descriptors that one process of a mount passes to another. All except Source may
// be nil.
type Handed struct {
	Source, Device, Ledger, Sock *os.File
	// FD is the descriptor of a mounted /dev/fuse, or 0. mountd owns it from then on.
	FD int
	// TakeOver means that mountd takes over the mount of a dead mountd, whose state is in Ledger.
	TakeOver bool
}

// runner starts one mountd after another.
type runner struct {
	c       Config
	fdStore *fdStore
	source  *os.File
	log     *os.File // mountd's log
	logger  *slog.Logger

	mu     sync.Mutex // guards cmd, ending
	cmd    *exec.Cmd  // the present mountd, if it is our child
	ending bool       // an orderly unmount was requested
}

// detached returns attributes that start a process in a new session, so that closing the terminal
// or pressing ^C does not end it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// interrupt makes mountd unmount in an orderly way.
func (r *runner) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(os.Interrupt)
	}
}

// start runs a mountd from a binary and returns its Report. If the Report contains an error, that
// mountd has ended.
func (r *runner) start(takeOver bool, exe string) Report {
	in, out, err := os.Pipe()
	if err != nil {
		return failure(err)
	}
	defer in.Close()
	sock, started, err := r.fdStore.handDown()
	if err != nil {
		out.Close()
		return failure(err)
	}
	args := append(r.c.args("mountd"), "--supervisor", fmt.Sprint(os.Getpid()))
	files := []*os.File{out, r.source, nil, nil, nil}
	if r.fdStore.ledger != nil && sock != nil {
		args = append(args, "--ledger")
		files[3], files[4] = r.fdStore.ledger, sock
	}
	if takeOver {
		args = append(args, "--take-over")
		files[2] = r.fdStore.device
	}
	cmd := &exec.Cmd{Path: exe, Args: args, Env: r.c.Env, Dir: "/", Stdout: r.log, Stderr: r.log, ExtraFiles: files, SysProcAttr: detached()}
	r.mu.Lock()
	err = cmd.Start()
	if err == nil {
		r.cmd = cmd
		if r.ending {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	r.mu.Unlock()
	out.Close()
	started(err == nil)
	if err != nil {
		return failure(fmt.Errorf("start mountd: %w", err))
	}
	if takeOver {
		t := time.AfterFunc(heirLimit, func() { _ = cmd.Process.Kill() })
		defer t.Stop()
	}
	rep := Receive(in, filepath.Join(r.c.State, "mountd.log"))
	if !rep.OK {
		_ = cmd.Wait()
	}
	return rep
}

func (r *runner) wait() error {
	r.mu.Lock()
	cmd := r.cmd
	r.mu.Unlock()
	return cmd.Wait()
}

// keepServing starts another mountd, which takes over, when mountd has ended although the
// connection exists and no unmount was requested. err is the result of Wait for the ended mountd.
// keepServing returns when no mountd serves the mount any more.
func (r *runner) keepServing(ctx context.Context, err error) error {
	exe := r.exe()
	for short := 0; short < heirsMax && ctx.Err() == nil && r.fdStore.canTakeOver(); {
		short++
		begun := time.Now()
		how := "it ended"
		if err != nil {
			how = err.Error()
		}
		rep := r.start(true, exe)
		if !rep.OK {
			r.logger.Error("a new mountd could not take over the mount", "after", how, "binary", exe, "error", rep.Err())
			if err == nil || errors.Is(rep.Err(), wire.ErrInternal) {
				err = rep.Err()
			}
			if exe == r.c.Exe && time.Since(begun) >= heirLimit {
				break // programs have waited long enough
			}
			exe = r.c.Exe
			continue // whatever killed the last mountd may have killed this one too
		}
		r.logger.Warn("mountd was replaced", "after", how, "mountd", rep.PID, "took", time.Since(begun).Round(time.Millisecond))
		err = r.wait()
		if time.Since(begun) > heirLife {
			short = 0
		}
		exe = r.exe()
	}
	r.fdStore.close() // the connection ends with the last descriptor
	return ended(r.c, r.logger, err)
}
