package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/capture"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// drainLimit bounds how long an orderly unmount waits for content to reach the spool.
const drainLimit = 60 * time.Second

// Serve runs mountd: it mounts, sends a Report, and returns when the mount has ended. from.Source
// is the source directory, opened before the mount. If from.FD > 0, from.FD is a mounted /dev/fuse.
// supervisor is the pid of the supervisor, or 0.
func Serve(c Config, from Handed, supervisor int, report io.WriteCloser, logger *slog.Logger) error {
	signal.Ignore(syscall.SIGHUP) // closing the terminal must not unmount
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, renewSignal)
	defer signal.Stop(signals)
	s, err := start(c, from, logger)
	if err != nil {
		return tell(report, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	outside := []mounts.Proc(nil)
	s.shared = mounts.Shared(from.Source)
	if s.shared == "" && mounts.FindsOutside {
		if s.edge.always {
			loop.Wake(s.link.resumed) // makes edge.run look soon; marking a large tree takes too long to do it here
		} else {
			outside = s.edge.look()
		}
		go s.edge.run(ctx, s.link.resting, s.link.resumed, s.mounted)
	}
	s.record(supervisor)
	s.link.run(ctx)
	stopAnswering := s.answerChanges()
	err = Report{OK: true, PID: os.Getpid(), Outside: outside, Shared: s.shared}.send(report)
	report.Close()
	if err != nil {
		logger.Warn("the process that asked for the mount has ended", "error", err)
	}
	if supervisor > 0 {
		go s.watchSupervisor(ctx, supervisor)
	}
	done := make(chan struct{})
	go func() { s.server.Wait(); close(done) }()
	gone := make(chan error, 1) // never closed
	go watchPlaces(ctx, s.places(), gone)
	if s.mount.Dev != "" {
		go s.watchTable(ctx, done)
	}
	inherits := !s.wait(done, signals, gone)
	stopAnswering() // before a successor opens the spool and its own socket
	s.edge.end()
	if inherits {
		// Requests without a reply are sent to the successor again.
		s.drain()
		return nil
	}
	cancel()
	return s.end()
}

// session holds the state of one mount in mountd.
type session struct {
	c        Config
	logger   *slog.Logger
	writer   *spool.Writer
	capture  *capture.Capture
	server   *fusefs.Server
	link     *link
	edge     *edge
	mount    mounts.Mount
	handed   Handed
	shared   string // type of the file system, if other machines can change it
	fdClient fdClient
	mounted  chan struct{} // capacity 1: our mount table has changed; never closed

	supervisor atomic.Int64 // pid of the supervisor, or 0
}

// start starts the spool, the daemon, capture and the mount, in this order. If one fails, it stops
// the others.
func start(c Config, from Handed, logger *slog.Logger) (s *session, err error) {
	source := from.Source
	s = &session{c: c, logger: logger, handed: from, mounted: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	s.writer, err = openSpool(c)
	if err != nil {
		return s, spoolError(c, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// During a take-over every program on the mount waits, so the daemon is contacted later.
	// Records stay in the spool until then.
	var client *wire.Client
	if !from.TakeOver {
		client, err = dial(ctx, c)
		if err != nil {
			return s, err
		}
	}
	s.link = &link{s: s, client: client, poke: make(chan struct{}, 1), records: make(chan struct{}, 1), resumed: make(chan struct{}, 1), unmountAcked: make(chan struct{}),
		attach: wire.Attach{PID: os.Getpid(), Mountpoint: c.Mountpoint, Spool: wire.SpoolDir(c.State), Bypass: wire.Bypass{Outside: true}}}
	matcher, err := ignore.New(source, c.Ignore)
	if err != nil {
		return s, fmt.Errorf("read the ignore rules: %w", err)
	}
	s.capture = capture.New(capture.Options{Spool: s.writer, Logger: logger, Matcher: matcher, Root: source, Git: wire.GitDir(c.State), Version: c.Version, Mountpoint: c.Mountpoint, Source: c.Root, OnRecord: s.link.recordSpooled, OnIdle: giveBack})
	opt := fusefs.Options{
		Source: source, Mountpoint: c.Mountpoint, FD: from.FD, Ledger: from.Ledger, TakeOver: from.TakeOver, AllowOther: c.AllowOther, ReadOnly: c.ReadOnly,
		NoCommands: c.NoCommands, Outside: true, Hidden: c.Hidden(), Observer: s.capture, Classifier: matcher, Logger: logger,
	}
	if from.Sock != nil {
		s.fdClient.use(from.Sock)
		opt.FDStore = &s.fdClient
		opt.Kept = s.fdClient.receive()
	}
	s.server, err = fusefs.Mount(opt)
	if err != nil {
		return s, err
	}
	s.edge = newEdge(s)
	s.fdClient.device(s.server.Device())
	if overlays, err := mounts.Overlays(); err == nil {
		s.mount, _ = mounts.At(overlays, c.Mountpoint)
	}
	return s, nil
}

// recorderWithin is how long the recorder of package outside may take to release the spool. After
// it has recorded work outside a mount, such as an undo, it keeps the spool for one more second.
const recorderWithin = 5 * time.Second

// openSpool opens the spool for writing. It waits for the recorder of package outside, but it fails
// at once if another mount has the spool open.
func openSpool(c Config) (w *spool.Writer, err error) {
	for deadline := time.Now().Add(recorderWithin); ; time.Sleep(20 * time.Millisecond) {
		w, err = spool.OpenWriter(wire.SpoolDir(c.State), spool.Options{})
		if !errors.Is(err, spool.ErrLocked) || time.Now().After(deadline) {
			return w, err
		}
		if _, mounted := ReadRecord(c.State); mounted {
			return w, err
		}
	}
}

func spoolError(c Config, err error) error {
	if errors.Is(err, spool.ErrLocked) {
		r, known := ReadRecord(c.State)
		if !known {
			return wire.Errorf(wire.ErrLocked, "cachebro status --dir "+c.Root, "another process is recording the changes in %s", c.Root)
		}
		return wire.Errorf(wire.ErrLocked, "cachebro status --dir "+c.Root+" shows that mount; end the programs that still run in it, or: kill "+fmt.Sprint(r.PID),
			"%s is served by another mount (mountd pid %d)", c.Root, r.PID)
	}
	return fmt.Errorf("open the spool: %w", err)
}

func (s *session) abandon() {
	if s.capture != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.capture.Close(ctx)
	}
	if s.link != nil && s.link.client != nil {
		s.link.client.Close()
	}
	if s.writer != nil {
		s.writer.Close()
	}
}

func (s *session) heartbeat() wire.Heartbeat {
	st := s.capture.Stats()
	fsStats := s.server.Stats()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return wire.Heartbeat{Head: s.writer.LastSeq(), Bypass: s.link.bypass(), Capture: wire.CaptureState{
		State: st.State, Since: st.Since, Reason: st.Reason, Queue: st.Queue, Spooled: s.writer.Size(), MaxSpool: st.MaxSpool, Gaps: st.PendingGaps,
		Inodes: int64(fsStats.Inodes), Handles: int64(fsStats.Handles), HeapBytes: int64(mem.HeapInuse),
	}}
}

// applyState handles an answer of the daemon. Healthy is false if no daemon answers.
func (s *session) applyState(a wire.HeartbeatAnswer) {
	s.capture.SetHealthy(a.Healthy, a.Reason)
	switch {
	case !a.BaselineStart.IsZero():
		s.capture.BaselineDone(a.BaselineStart)
	case a.Healthy:
		s.capture.Scanning(s.server.EachDirty)
	}
}

// atRest reports whether no heartbeat is needed until something happens on the mount.
func (s *session) atRest(a wire.HeartbeatAnswer) bool {
	st := s.capture.Stats()
	if !a.Healthy || st.State != "capturing" || st.Queue > 0 {
		return false
	}
	scanned := !a.BaselineStart.IsZero() || s.link.unmounted()
	return scanned && a.Ingested >= s.writer.LastSeq()
}

// recordEnd writes to a file, for the next daemon to read, that the mount has ended. If a daemon is
// running, recordEnd records nothing and returns false.
func (s *session) recordEnd(ctx context.Context) (bool, error) {
	st, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		return false, err
	}
	return wire.WriteMountEnd(ctx, s.c.Paths, s.c.Root, wire.MountEnd{PID: os.Getpid(), Start: st.Start, Boot: procfs.BootID(), At: time.Now()})
}

// worthGivingBack is a size in bytes. If neither the used nor the unused part of the heap is
// larger, giveBack does nothing.
const worthGivingBack = 8 << 20

// giveBack returns unused memory to the system after a burst of work.
func giveBack() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.HeapAlloc > worthGivingBack || mem.HeapIdle-mem.HeapReleased > worthGivingBack {
		debug.FreeOSMemory()
	}
}

// setOutside tells the overlay and the daemon whether processes may write directly to the source.
// After an unmount at the mountpoint they always may, because the mountpoint is then the source
// itself.
func (s *session) setOutside(on bool) {
	on = on || s.link.unmounted()
	s.server.SetOutside(on)
	s.link.setBypass(func(b *wire.Bypass) { b.Outside = on })
	s.link.hurry()
}

// record writes the Record of the mount. The commands umount and status read it.
func (s *session) record(supervisor int) {
	s.supervisor.Store(int64(supervisor))
	r := Record{PID: os.Getpid(), Supervisor: supervisor, Mountpoint: s.c.Mountpoint, MountID: s.mountID(), Dev: s.mount.Dev, Since: time.Now(), Version: s.c.Version, Replaceable: s.server.Replaceable()}
	if old, ok := ReadRecord(s.c.State); ok && s.handed.TakeOver {
		r.Since, r.Replaced = old.Since, old.Replaced
		if old.PID != r.PID {
			r.Replaced++
		}
		r.Unmounted = old.Unmounted
	}
	if err := wire.WriteJSON(filepath.Join(s.c.State, recordFile), r); err != nil {
		s.logger.Warn("cannot record the mount", "error", err)
	}
}

// watchSupervisor starts another supervisor when the present one dies.
func (s *session) watchSupervisor(ctx context.Context, pid int) {
	keepRunning(ctx, pid, func() (int, error) {
		cmd, err := s.startSupervisor()
		if err != nil {
			s.logger.Error("cannot start another supervisor", "error", err)
			return 0, err
		}
		go func() { _ = cmd.Wait() }()
		pid := cmd.Process.Pid
		s.logger.Warn("the supervisor has ended; started another one", "pid", pid)
		s.record(pid)
		return pid, nil
	})
}

// keepRunning calls start whenever the process has ended, until ctx ends. The first call comes at
// once, because without a supervisor a kill of mountd would leave a dead mount. If the new process
// ends soon or cannot be started, for instance because the binary was replaced, the pauses grow.
func keepRunning(ctx context.Context, pid int, start func() (int, error)) {
	const first, last = 10 * time.Millisecond, time.Minute
	for pause := time.Duration(0); ; {
		began := time.Now()
		if p, err := watch(pid); err == nil {
			// When mountd ends, this goroutine is abandoned in poll, just before the process exits.
			_ = p.wait()
			p.close()
		}
		if time.Since(began) > heirLife {
			pause = 0
		}
		for {
			if !loop.Pause(ctx, pause) {
				return
			}
			pause = min(max(2*pause, first), last)
			var err error
			pid, err = start()
			if err == nil {
				break
			}
		}
	}
}

// startSupervisor starts a supervisor that adopts this process and receives the descriptors that
// the last supervisor held.
func (s *session) startSupervisor() (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: s.c.Exe, Args: append(s.c.args("supervise"), "--adopt", fmt.Sprint(os.Getpid())), Env: s.c.Env, Dir: "/", Stdout: os.Stderr, Stderr: os.Stderr, SysProcAttr: detached()}
	cmd.ExtraFiles = []*os.File{nil, s.handed.Source}
	if s.handed.Ledger != nil {
		device, err := dup(s.server.Device())
		if err != nil {
			return nil, err
		}
		defer device.Close()
		sock, err := s.fdClient.renew(s.server)
		if err != nil {
			return nil, err
		}
		defer sock.Close()
		cmd.Args = append(cmd.Args, "--ledger")
		cmd.ExtraFiles = append(cmd.ExtraFiles, device, s.handed.Ledger, sock)
	}
	return cmd, cmd.Start()
}

const (
	// busyWait is how long an unmount waits for processes inside before it detaches the mount.
	busyWait = 2 * time.Second
	// copyWait is how long an unmount may take to end the connection. If it takes longer, a copy of
	// the mount in another namespace holds the connection open.
	copyWait = time.Second
)

// wait waits for the unmount. It returns false if a successor will serve the mount.
//
//   - The first signal asks for an orderly unmount. If the mount is still in use after
//     busyWait, it is detached, and processes inside are served until they leave or
//     another signal arrives.
//   - A mount that was unmounted here but still exists in another mount namespace ends at the first
//     signal.
//   - A mount whose state or project is gone ends without a signal.
func (s *session) wait(done <-chan struct{}, signals <-chan os.Signal, gone <-chan error) bool {
	var busy, over <-chan time.Time
	leave := func(why any) {
		err := fusefs.Unmount(s.c.Mountpoint)
		switch {
		case err == nil || !s.mountedHere():
			over = time.After(copyWait)
		case busy == nil:
			s.logger.Warn("unmount", "why", why, "error", err)
			busy = time.After(busyWait)
		}
	}
	asked := false
	for {
		select {
		case <-done:
			return true
		case err := <-gone:
			s.logger.Error("the mount ends, because changes in it could not be recorded", "error", err)
			asked = true
			leave(err)
		case sig := <-signals:
			if sig == renewSignal {
				if s.server.Replaceable() && !asked {
					return false
				}
				continue
			}
			asked = true
			leave(sig)
		case <-over:
			s.logger.Warn("ending a connection that is still in use")
			return true
		case <-busy:
			s.logger.Warn("the mount is busy: detaching it", "by", mounts.Describe(s.users(), 20))
			if err := fusefs.Detach(s.c.Mountpoint); err != nil {
				s.logger.Error("detach", "error", err)
			}
		}
	}
}

func (s *session) mountedHere() bool {
	table, err := mounts.Mounts()
	return err != nil || s.mountedIn(table)
}

func (s *session) mountedIn(table []mounts.Mount) bool {
	return slices.ContainsFunc(table, func(m mounts.Mount) bool {
		return m.Type == mounts.FSType && m.Dev == s.mount.Dev && m.Point == s.c.Mountpoint
	})
}

// tablePause limits how often the mount table is read on machines that mount and unmount all the
// time.
const tablePause = time.Second

// watchTable watches our mount table. If the mount was unmounted in our mount namespace but still
// exists in another one, watchTable records that, because umount must not wait for the processes
// there. It also reports new mounts through which processes can reach the source without going
// through our mount.
func (s *session) watchTable(ctx context.Context, done <-chan struct{}) {
	table, err := mounts.WatchTable()
	if err != nil {
		return // then umount waits for mountd to end
	}
	defer table.Close()
	beside, pause := "", time.Duration(0)
	for began := time.Now(); err == nil && ctx.Err() == nil; err = table.Wait() {
		if time.Since(began) > 10*tablePause {
			pause = 0
		}
		began = time.Now()
		all, err := mounts.Mounts()
		if err != nil {
			continue
		}
		if s.mountedIn(all) {
			if way, _ := mounts.BesideSummary(all, s.c.Mountpoint); way != beside {
				beside = way
				loop.Wake(s.link.resumed)
			} else {
				loop.Wake(s.mounted)
				time.Sleep(pause)
				pause = min(max(2*pause, 10*time.Millisecond), tablePause)
			}
			continue
		}
		if s.link.unmounted() {
			continue
		}
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond): // a mount usually ends faster
		}
		s.drain()
		s.link.tellUnmounted()
		s.setOutside(true)
		s.logger.Warn("unmounted here; copies of the mount, and processes inside, are served until they end")
		r, ok := ReadRecord(s.c.State)
		if ok && r.PID == os.Getpid() {
			r.Unmounted = true
			if err := wire.WriteJSON(filepath.Join(s.c.State, recordFile), r); err != nil {
				s.logger.Warn("cannot record the mount", "error", err)
			}
		}
	}
}

// places returns the directories that the mount depends on: the state directory and the source,
// unless the mount covers the source.
func (s *session) places() (places []wire.Place) {
	names := []string{wire.SpoolDir(s.c.State)}
	if !s.c.InPlace() {
		names = append(names, s.c.Root)
	}
	for _, name := range names {
		p, err := wire.SamePlace(name)
		if err != nil {
			s.logger.Warn("cannot watch", "path", name, "error", err)
			continue
		}
		places = append(places, p)
	}
	return places
}

func watchPlaces(ctx context.Context, places []wire.Place, gone chan<- error) {
	if err := wire.WaitGone(ctx, places...); err != nil {
		gone <- err
	}
}

func (s *session) users() []mounts.Proc {
	return mounts.Scan(s.c.Mountpoint, map[int]bool{s.mountID(): true}, true, mounts.Ours)
}

func (s *session) end() error {
	s.server.Abandon()
	// An aborted connection ends the server and leaves a dead mount.
	if mounts.Answers(s.c.Mountpoint, 200*time.Millisecond) == mounts.ErrDead {
		if err := fusefs.Detach(s.c.Mountpoint); err != nil {
			s.logger.Error("detach", "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	err := s.capture.Close(ctx)
	if err != nil {
		err = fmt.Errorf("drain the captured contents: %w", err)
	}
	if werr := s.writer.Close(); err == nil && werr != nil {
		err = fmt.Errorf("close the spool: %w", werr)
	}
	s.link.bye()
	remove(filepath.Join(s.c.State, recordFile))
	return err
}
