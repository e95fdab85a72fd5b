package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/cmd/cachebro/daemon/actions"
	"cachebro/cmd/cachebro/daemon/answers"
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/find"
	"cachebro/cmd/cachebro/daemon/fork"
	"cachebro/cmd/cachebro/daemon/gitstate"
	"cachebro/cmd/cachebro/daemon/history"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/knowledge"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/plans"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/cmd/cachebro/daemon/sending"
	"cachebro/cmd/cachebro/daemon/sessions"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/cmd/cachebro/daemon/tidy"
	"cachebro/fusefs/outside"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
	"cachebro/store/memo/results"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Options configure Run. Root, Paths and Version are required. The zero value of any other field is
// usable.
type Options struct {
	Root    string     // absolute, clean, symlinks resolved
	Paths   wire.Paths // locations of the state directory and the socket
	Version string     // version of this program
	// Ignore and the project's own ignore files decide the class of a path.
	Ignore ignore.Options
	// IdleExit is how long an idle daemon keeps running. A daemon is idle while no request arrives,
	// nothing happens on the mount and no work is in progress. 0 means 90 s, < 0 means that it
	// never ends.
	IdleExit time.Duration
	// MemoryLimit is the garbage collector's memory limit, in bytes. The daemon raises the limit
	// while the live heap needs more (see followMemory). 0 means 112 MiB, < 0 no limit.
	MemoryLimit int64
	// Workers is the number of threads for the index and exact queries; 0 means GOMAXPROCS.
	Workers int
	Store   store.Options
	Shown   readers.Options
	Results results.Settings
	// Embedder, if not nil, enables search by meaning. Run does not close it.
	Embedder search.Embedder
	// Tidy makes the store in another state directory shrink to its share of the size cap. It may
	// take minutes. If Tidy is nil, other stores do not shrink.
	Tidy func(ctx context.Context, state string) error
	Log  *slog.Logger // nil means daemon.log in the state directory
	// Mirror says that the history is a copy of another machine's. Such a history has no files, and
	// grows only while no daemon runs.
	Mirror bool
	// Ready, if not nil, is called once the daemon answers.
	Ready func()
}

// Daemon is one running daemon.
type Daemon struct {
	o     Options
	state string
	log   *slog.Logger

	store       *store.Store
	readOnly    bool // the disk was too full to open the store for writing
	shown       *readers.Tracker
	ingest      *ingest.Ingester
	source      *source.Source
	attribution *attribution.Attribution
	git         *gitstate.Service
	index       *search.Index

	survey    *survey.Survey
	answers   *answers.Answers
	sets      *reads.WorkingSets
	losses    *lost.Service
	knowledge *knowledge.Knowledge
	find      *find.Finder
	sessions  *sessions.Sessions
	tidy      *tidy.Tidy
	outputs   sessions.SavedOutputs
	sending   *sending.Service

	mountKnown     chan struct{} // closed once the daemon knows whether the project is mounted; nil before serve
	mountKnownOnce sync.Once     // closes mountKnown

	table  map[string]wire.Handler // by method
	server *wire.Server
	stop   context.CancelFunc

	requests atomic.Int64
	panics   atomic.Int64
	orphaned atomic.Bool // its state directory, socket or project is gone
}

// endLimit is how long running work may continue once a daemon must end. The time to send the last
// of the history is not included. Synced data is safe without a proper close, so the daemon need
// not wait for a merge of the index, a scan or a library that spins.
const endLimit = time.Second

// Run serves the project's store. It returns when one of these happens:
//
//   - ctx ends, or SIGTERM or SIGINT arrives
//   - a client requests shutdown
//   - the state directory, the socket or the project is gone
//   - the daemon has been idle for too long
//
// The process must exit when Run returns, because work that does not stop within endLimit may still
// be running. But if the caller's context has ended, Run waits for all work. If the daemon cannot
// start, Run returns an error of package wire with a hint: ErrLocked (with the holder's pid),
// ErrForeign, ErrNoSpace, ErrDamaged or ErrNewer.
func Run(caller context.Context, o Options) error {
	ctx, stop := signal.NotifyContext(caller, unix.SIGTERM, unix.SIGINT)
	defer stop()
	ended := make(chan error, 1)
	var serving atomic.Pointer[Daemon]
	go func() { ended <- run(ctx, stop, o, &serving) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit := endLimit
	if d := serving.Load(); d != nil && !d.orphaned.Load() && d.sending.Configured() {
		limit += sending.Farewell
	}
	select {
	case err := <-ended:
		return err
	case <-endTimer(caller, limit):
		return fmt.Errorf("some work did not stop within %v", limit)
	}
}

// endTimer returns a channel that fires after d. If ctx itself has ended, the channel never fires,
// because the caller that cancelled ctx waits for the end.
func endTimer(ctx context.Context, d time.Duration) <-chan time.Time {
	if ctx.Err() != nil {
		return nil
	}
	return time.After(d)
}

func run(ctx context.Context, stop context.CancelFunc, o Options, serving *atomic.Pointer[Daemon]) (err error) {
	o.IdleExit = cmp.Or(o.IdleExit, limits.DaemonIdle)
	most, _ := procfs.MemoryGroup()
	if o.MemoryLimit == 0 {
		o.MemoryLimit = memoryFloor(most)
	}
	if o.MemoryLimit > 0 {
		defer followMemory(o.MemoryLimit, most)()
	}
	state, err := o.Paths.MakeState(o.Root)
	if err != nil {
		return err
	}
	// Lock before opening Badger, which would wait or fail with a less clear error.
	lock, began, err := lockState(state, func() bool { return wire.Served(o.Paths, o.Root) })
	if err != nil {
		return err
	}
	defer lock.Close()
	o.Shown.Began = began
	if o.Log == nil {
		l, err := openLog(wire.LogFile(state))
		switch {
		case err == nil:
			defer l.Close()
			o.Log = slog.New(slog.NewTextHandler(l, nil))
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			o.Log = slog.New(slog.DiscardHandler)
		default:
			return err
		}
	}
	d, err := open(ctx, o, state)
	if err != nil {
		o.Log.Error("start", "err", err)
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	serving.Store(d)
	return d.serve(ctx, stop)
}

// open prepares everything except the socket.
func open(ctx context.Context, o Options, state string) (_ *Daemon, err error) {
	d := &Daemon{o: o, state: state, log: o.Log, source: source.New(o.Root, o.Ignore)}
	so := o.Store
	if so.Log == nil {
		so.Log = o.Log
	}
	if d.outside() {
		so.MaxAge, so.Unscanned = limits.OutsideFor, true
	}
	so.Allowed = func(int64) int64 { return tidy.Allowed(state, d.store.Options().Cap) }
	d.store, err = store.Open(filepath.Join(state, "store"), so)
	if errors.Is(err, store.ErrNoSpace) {
		// A full disk can still be read. New records wait in the spool until there is
		// space.
		so.ReadOnly, d.readOnly = true, true
		if full, ferr := store.Open(filepath.Join(state, "store"), so); ferr == nil {
			d.log.Error("the store is open for reading only", "err", err)
			d.store, err = full, nil
		}
	}
	if err != nil {
		return nil, onwire.Error(err)
	}
	if why := killedForMemory(d.store, time.Now()); why != "" {
		d.log.Warn(why)
	}
	opened := d // closed if an error is returned
	defer func() {
		if err != nil {
			_ = opened.close()
		}
	}()
	if d.store.Seq() == 0 {
		n, err := d.store.Contents().Adopt(ctx)
		if err != nil {
			d.log.Warn("share with sibling worktrees", "err", err) // sharing only saves space
		}
		if n > 0 {
			d.log.Info("sibling worktrees", "contents", n)
		}
	}
	d.attribution, err = attribution.Open(d.store, d.log)
	if err != nil {
		d.log.Warn("earlier records of processes and tool calls are lost", "err", err)
	}
	texts := reads.NewTexts(d.store)
	d.shown, err = readers.New(texts, d.store.KV("shown"), o.Shown)
	if err != nil {
		return nil, fmt.Errorf("read what readers were shown: %w", err)
	}
	d.git = gitstate.New(wire.GitDir(state), d.store, d.source, d.log)
	d.ingest, err = ingest.Open(wire.SpoolDir(state), d.store, d.source, d.attribution, d.log, ingest.Followers{
		Hold: func() func() { return d.index.Suspend() }, Changed: d.changed,
		Wrote: func(vs []store.Version) { d.sets.NoteWrites(vs); d.losses.Examine(vs) },
		Reads: func(r *spool.Record) { d.sets.NoteReads(r); d.losses.RecordReads(r) }, Git: d.git, Settle: d.settle,
		Bypassed: func(ctx context.Context, bypasses []ingest.Bypass, apply func([]store.Change) bool) {
			d.survey.RecordBypassed(ctx, bypasses, apply)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := d.openServices(ctx, texts); err != nil {
		return nil, err
	}
	return d, nil
}

// openServices opens the index and the services that answer requests. A service is opened before
// the services that use it.
func (d *Daemon) openServices(ctx context.Context, texts *reads.Texts) (err error) {
	o := d.o
	d.survey, err = survey.Open(survey.Options{
		Root: o.Root, State: d.state, Store: d.store, Source: d.source, Ingest: d.ingest, Log: d.log, Changed: d.changed, Absent: o.Mirror, Unscanned: d.outside(),
		Sends: func() bool { return d.sending.Configured() },
	})
	if err != nil {
		return err
	}
	paths := onwire.Paths{Root: o.Root, Mountpoint: d.survey.Mountpoint}
	files := find.NewCorpus(ctx, d.store, d.source)
	d.index = search.Open(find.IndexDir(d.state), files, search.Options{Logger: d.log, Embedder: o.Embedder, Workers: o.Workers, Room: d.store.Room().AboveFloor, Asked: d.recentlyAsked, BatchBytes: batchBytes(o.MemoryLimit)})
	d.losses, err = lost.Open(d.store, d.shown, d.log, time.Now)
	if err != nil {
		return err
	}
	acts := actions.New(d.store, d.survey, paths, d.losses)
	d.git.SetActions(acts)
	acts.SetGitOps(d.git.Between)
	planner := plans.New(plans.Options{
		Store: d.store, Source: d.source, Ingest: d.ingest, Attribution: d.attribution, Survey: d.survey, Actions: acts, Lost: d.losses, Git: d.git, Paths: paths, Places: o.Paths, Hold: d.holdForPlan, Log: d.log,
	})
	recorded := &history.History{Store: d.store, Source: d.source, Survey: d.survey, Paths: paths, Lost: d.losses, Attribution: d.attribution}
	past := &history.Past{Store: d.store, Ingest: d.ingest, Paths: paths}
	forks := &fork.Service{Root: o.Root, Store: d.store, Source: d.source, Ingest: d.ingest, Survey: d.survey}
	d.answers = answers.Open(o.Results, d.store, d.ingest, d.survey, d.log)
	d.sets = reads.OpenWorkingSets(d.store, d.source, d.ingest, d.attribution, d.log)
	reader := &reads.Reads{
		Store: d.store, Source: d.source, Ingest: d.ingest, Attribution: d.attribution, Survey: d.survey, Sets: d.sets, Shown: d.shown, Texts: texts, Paths: paths, Lost: d.losses,
	}
	d.knowledge, err = knowledge.Open(knowledge.Options{
		Store: d.store, Ingest: d.ingest, Attribution: d.attribution, Survey: d.survey, Answers: d.answers, Sets: d.sets, Reads: reader,
		Paths: paths, Version: o.Version, IndexHeld: d.index.Suspended, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.find = find.New(find.Options{
		Store: d.store, Source: d.source, Survey: d.survey, Answers: d.answers, Sets: d.sets, Knowledge: d.knowledge,
		Index: d.index, Files: files, Paths: paths, Log: d.log,
	})
	d.sessions = sessions.New(sessions.Options{
		Store: d.store, Source: d.source, Ingest: d.ingest, Attribution: d.attribution, Survey: d.survey, Sets: d.sets, Reads: reader, Knowledge: d.knowledge,
		Shown: d.shown, Outputs: &d.outputs, Paths: paths, Log: d.log, Places: o.Paths, Version: o.Version,
	})
	d.tidy = tidy.New(tidy.Options{
		Root: o.Root, State: d.state, Version: o.Version, Store: d.store, Ingest: d.ingest, Answers: d.answers, Sets: d.sets, Knowledge: d.knowledge,
		Index: d.index, Shown: d.shown, Paths: paths, Changed: d.changed, Tidy: o.Tidy, Log: d.log,
	})
	d.sending, err = sending.New(sending.Options{Store: d.store, Ingest: d.ingest, Parts: tidy.Portable(o.Root, o.Version), Log: d.log})
	if err != nil {
		return fmt.Errorf("read the state of sending: %w", err)
	}
	d.table, err = merge(d.handlers(), d.survey.Handlers(), planner.Handlers(), recorded.Handlers(), d.answers.Handlers(), d.sets.Handlers(),
		reader.Handlers(), d.knowledge.Handlers(), d.find.Handlers(), d.sessions.Handlers(), d.tidy.Handlers(),
		d.outputs.Handlers(), d.sending.Handlers(), acts.Handlers(), past.Handlers(),
		forks.Handlers(), sessions.NewComments(d.store, paths, time.Now).Handlers())
	return err
}

// serve runs until ctx ends.
func (d *Daemon) serve(ctx context.Context, stop context.CancelFunc) error {
	d.stop, d.mountKnown = stop, make(chan struct{})
	l, path, err := wire.Listen(d.o.Paths, d.o.Root, d.state)
	if err != nil {
		return err
	}
	d.server = wire.NewServer(wire.ServerOptions{Handler: d.handle, Hello: d.hello, Log: d.log})
	d.log.Info("store daemon", "root", d.o.Root, "pid", os.Getpid(), "version", d.o.Version, "socket", path, "seq", d.store.Seq())

	places := d.places(path)
	// work outlives ctx, so that queued data can still be sent.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { d.ingest.Run(work) })
	wg.Go(func() { d.survey.Run(work) })
	if !d.o.Mirror && !d.outside() { // these histories have no files to index
		wg.Go(func() { d.find.Run(work) })
	}
	wg.Go(func() { d.knowledge.Run(work) })
	wg.Go(func() { d.sets.Run(work) })
	wg.Go(func() { d.housekeeping(work) })
	wg.Go(func() { d.tidy.Run(work) })
	wg.Go(func() { d.sending.Run(work) })
	wg.Go(func() {
		d.shown.Run(work.Done(), func(err error) { d.log.Warn("ledger", "err", err) })
	})
	var serveErr error
	wg.Go(func() { serveErr = d.server.Serve(l) })
	wg.Go(func() { d.askToAttach(work) })
	wg.Go(func() { d.watchPlace(work, places) })
	if d.o.Ready != nil {
		d.o.Ready()
	}
	<-ctx.Done()
	if !d.orphaned.Load() {
		d.sending.SendLast(work)
	}
	d.server.Close()
	cancel()
	wg.Wait()
	d.log.Info("store daemon ends", "requests", d.requests.Load(), "panics", d.panics.Load())
	return serveErr
}

// close releases what open acquired, in reverse order.
func (d *Daemon) close() error {
	var errs []error
	if d.shown != nil {
		errs = append(errs, d.shown.Close())
	}
	if d.answers != nil {
		d.answers.Close()
	}
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	if d.ingest != nil {
		errs = append(errs, d.ingest.Close())
	}
	if d.survey != nil {
		d.survey.Close()
	}
	d.source.Drop()
	if d.store != nil {
		if err := d.store.Sync(); err != nil && !d.readOnly {
			errs = append(errs, err)
		}
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

// places returns the lock file, the socket and the project. The daemon ends when one of them is
// gone. Their identities are recorded before any request is answered, so that a later replacement
// counts as gone.
func (d *Daemon) places(socket string) []wire.Place {
	places := []wire.Place{{Path: d.o.Root, Gone: d.source.Gone}}
	for _, name := range []string{filepath.Join(d.state, "lock"), socket} {
		p, err := wire.SamePlace(name)
		if err != nil {
			p = wire.Place{Path: name, Gone: func() error { return err }}
		}
		places = append(places, p)
	}
	return places
}

// watchPlace ends a daemon that clients can no longer reach or whose files are gone.
func (d *Daemon) watchPlace(ctx context.Context, places []wire.Place) {
	if err := wire.WaitGone(ctx, places...); err != nil {
		d.orphaned.Store(true)
		d.log.Error("the store daemon ends, because clients can no longer reach it or its project is gone", "err", err)
		d.stop()
	}
}

// housekeeping runs the periodic cleanup and closes the descriptor of a mountd that died. It ends
// an idle daemon, and a read-only daemon when its disk has space again.
func (d *Daemon) housekeeping(ctx context.Context) {
	every := 30 * time.Second
	if d.o.IdleExit > 0 {
		every = min(every, max(d.o.IdleExit/4, 10*time.Millisecond))
	}
	for loop.Pause(ctx, every) {
		if !d.survey.Mounted() {
			d.source.Unmounted()
		}
		if d.endIdle(ctx) {
			return
		}
		if d.readOnly && d.store.Room().AboveFloor() {
			d.log.Info("the disk has room again, so the next daemon can write")
			d.stop()
			return
		}
		d.attribution.ForgetOld()
		d.git.Tidy(ctx)
		d.tidy.Collect(ctx)
	}
}

// outside reports whether this is the user's history of changes outside all projects.
func (d *Daemon) outside() bool { return d.o.Root == wire.OutsideRoot }

// settle waits until everything that has happened so far is recorded; see ingest.Followers.
func (d *Daemon) settle() {
	var err error
	switch {
	case d.survey.Watched():
		ctx, cancel := context.WithTimeout(context.Background(), ingest.QueryWait)
		defer cancel()
		err = wire.Settle(ctx, d.o.Paths, d.o.Root)
	case d.survey.Mounted():
	default:
		err = outside.Settle(d.o.Paths, outside.SettleWithin, func() error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			return outside.Start(d.o.Paths, exe, os.Environ())
		})
	}
	if err != nil {
		d.log.Warn("changes that bypassed the mount may be missing", "err", err)
	}
}

func (d *Daemon) hello(h wire.Hello, _ wire.Peer) (wire.HelloAnswer, error) {
	return wire.HelloAnswer{Version: d.o.Version, PID: os.Getpid(), Root: d.o.Root, State: d.state}, nil
}

// changed notifies the services that follow the log of new versions, or of a complete baseline. It
// never blocks.
func (d *Daemon) changed() {
	d.find.Poke()
	d.knowledge.Poke()
	d.sending.Changed()
}
