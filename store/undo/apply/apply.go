package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cachebro/store/undo/displace"
	"cachebro/store/wire"

	"golang.org/x/sync/errgroup"
)

// Work holds the callbacks and settings that Plan needs from its caller. The functions, except
// After, may be called concurrently.
type Work struct {
	// Fetch returns the contents for the given steps, in order. It returns at least the first one;
	// Plan calls it again for the rest.
	Fetch func(ctx context.Context, ns []int) ([][]byte, error)
	// After is called after each completed step, never concurrently, to update the daemon's
	// journal. If it returns an error, Plan stops.
	After func(n int) error
	// Lock, if not nil, locks a path against other goroutines of this process.
	Lock func(path string) (unlock func())
	// Force means that a file that another process has open for writing is written in place.
	Force bool
	// Watched means that a recorder observes the system calls of this thread and reports the steps
	// to the history. All steps then run on this thread.
	Watched bool
}

// Result lists the completed steps, and the other steps with the reason.
type Result struct {
	Done   []int
	Failed []wire.Conflict
	// Left lists properties, such as an owner with its set-id bit, that could not be restored
	// although the file was written.
	Left []wire.Conflict
}

// errChanged means that the file is not as the plan expects.
var errChanged = errors.New("changed since the plan was made")

const (
	// inFlight is the number of concurrent steps. With several, neither the mount nor the daemon is
	// idle while the other works.
	inFlight = 4
	// maxOpen limits the number of open directories.
	maxOpen = 256
)

// Plan carries out the plan's steps in dir. It writes contents and links of different files
// concurrently. Any other step waits for the steps before it. Cancelling ctx stops the work. The
// Result is complete in any case. When a plan is resumed, steps whose result already exists count
// as done.
func Plan(ctx context.Context, dir string, p wire.Plan, work Work) (Result, error) {
	// A goroutine that waits for the mount is in a system call. Without a spare processor this
	// delays other goroutines by 20 µs or more.
	if len(p.Steps) > piece && runtime.GOMAXPROCS(0) < 2*inFlight {
		runtime.GOMAXPROCS(2 * inFlight)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Result{}, fmt.Errorf("open the project: %w", err)
	}
	c := &execution{plan: &p, work: work, places: newPlaces(root, &p), overlay: displace.Overlay(dir), done: map[int]bool{}, unfit: map[string]string{}}
	c.prepares = c.overlay && !work.Watched && takesPrepared(dir)
	defer c.places.close()
	for _, n := range p.Done {
		c.done[n] = true
	}
	for at := 0; at < len(p.Steps) && err == nil; {
		var n int
		n, err = c.stretch(ctx, p.Steps[at:])
		at += n
	}
	slices.Sort(c.res.Done)
	switch {
	case p.Cut != nil:
		sweep(root, p.Cut)
	case p.Resume:
		sweep(root, &p)
	}
	return c.res, err
}

// Sweep removes the temporary files of an interrupted plan that had not completed any step. Such a
// plan needs no rollback.
func Sweep(dir string, cut *wire.Plan) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the project: %w", err)
	}
	defer root.Close()
	sweep(root, cut)
	return nil
}

func sweep(root *os.Root, p *wire.Plan) {
	done := map[int]bool{}
	for _, n := range p.Done {
		done[n] = true
	}
	for i := range p.Steps {
		w := worker{step: &p.Steps[i], plan: p}
		if (w.step.Do == "write" || w.step.Do == "symlink") && !done[w.step.N] && valid(string(w.step.Path)) {
			_ = from(root, path.Join(path.Dir(string(w.step.Path)), w.temporary()), (*os.Root).Remove)
		}
	}
}

// execution is the state of a plan that is being carried out.
type execution struct {
	plan   *wire.Plan
	work   Work
	places *places
	// overlay means that dir is in a mount, so that a rename is safe; see displace.Overlay.
	overlay bool
	// prepares means that the mount accepts announcements of new files.
	prepares bool
	done     map[int]bool // steps that an earlier attempt completed

	// mu guards the fields below and serialises work.After.
	mu    sync.Mutex
	res   Result
	unfit map[string]string // paths to which a move failed and that hold another file, with the path that should have been moved there
}

// alone reports whether a step changes which file a name refers to, or the access rights of the
// project's root. Such a step must not run concurrently with others.
func alone(s *wire.PlanStep) bool {
	switch s.Do {
	case "rmdir", "rename", "exchange", "link":
		return true
	}
	return ofRoot(s)
}

// ofRoot reports whether a step changes the metadata of the project's root. Its path is empty.
func ofRoot(s *wire.PlanStep) bool {
	return s.Do == "chmod" && len(s.Path) == 0 && s.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// touched holds the paths of steps that may still be running, with the value true, and the
// directories above these paths.
type touched map[string]bool

func (t touched) add(name []byte) {
	t[string(name)] = true
	for i, c := range name {
		if c == '/' && !t[string(name[:i])] {
			t[string(name[:i])] = false
		}
	}
}

// meet reports whether a running step is for this path, for a directory above it, or for something
// below it.
func (t touched) meet(name []byte) bool {
	for i, c := range name {
		if c == '/' && t[string(name[:i])] {
			return true
		}
	}
	_, ok := t[string(name)]
	return ok
}

// waits reports whether a step has to wait until all steps before it have ended.
func (t touched) waits(s, before *wire.PlanStep) bool {
	switch {
	case alone(s) || alone(before):
		return true
	case before.Do == "delete" && s.Do != "delete":
		return true // s may change the content of a file whose other name is being deleted
	}
	return t.meet(s.Path)
}

// piece is the number of steps that one goroutine gets at a time. It fetches their contents
// together. If the next step is in another directory, the goroutine gets only half that number.
// Goroutines that create files in one directory wait for each other.
const piece = 32

// stretch carries out as many steps as may run concurrently, and returns their number. It opens the
// directories of later steps while earlier steps are running.
func (c *execution) stretch(ctx context.Context, steps []wire.PlanStep) (n int, err error) {
	under := touched{}
	g, inner := errgroup.WithContext(ctx)
	if c.prepares { // the steps seldom wait for the mount
		g.SetLimit(inFlight / 2)
	} else {
		g.SetLimit(inFlight)
	}
	var ws []*worker
	send := func() {
		switch part := ws; {
		case len(part) == 0:
		case c.work.Watched:
			err = errors.Join(err, c.inOrder(inner, part))
		default:
			g.Go(func() error { return c.inOrder(inner, part) })
		}
		ws = nil
	}
	for ; n < len(steps) && err == nil; n++ {
		s := &steps[n]
		if n > 0 && (c.places.full() || under.waits(s, &steps[n-1])) {
			break
		}
		under.add(s.Path)
		if c.done[s.N] {
			continue
		}
		err = inner.Err()
		if err != nil {
			break
		}
		w := &worker{execution: c, step: s, plan: c.plan, places: c.places}
		lerr := c.inPlace(s)
		if lerr == nil {
			lerr = w.locate()
		}
		if lerr != nil {
			err = c.ended(w, lerr)
			continue
		}
		if len(ws) == piece || len(ws) >= piece/2 && ws[len(ws)-1].root != w.root {
			send()
		}
		ws = append(ws, w)
	}
	send()
	if werr := g.Wait(); werr != nil {
		err = werr
	}
	c.places.between(alone(&steps[0]) && steps[0].Do != "link")
	return n, err
}

// inOrder carries out the steps of one goroutine. If files were displaced, it waits once at the end
// for late writers of all old files.
func (c *execution) inOrder(ctx context.Context, ws []*worker) (err error) {
	if c.prepares { // the mount recognises announced files by the thread that creates them
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	s := supply{fetch: c.work.Fetch, of: ws}
	var displaced []*worker
	for i, w := range ws {
		err = ctx.Err()
		if err != nil {
			break
		}
		err = c.do(ctx, w, &s, i)
		if err == nil && w.displaced != nil {
			displaced = append(displaced, w)
			continue
		}
		err = c.ended(w, err)
		if err != nil {
			break
		}
	}
	if len(displaced) > 0 {
		time.Sleep(displace.Grace)
	}
	for _, w := range displaced {
		if eerr := c.ended(w, w.displaced.Finish()); err == nil {
			err = eerr
		}
	}
	return err
}

// do carries out one step while it holds the lock of the step's path.
func (c *execution) do(ctx context.Context, w *worker, s *supply, i int) error {
	if c.work.Lock != nil {
		defer c.work.Lock(string(w.step.Path))()
	}
	defer w.release()
	return w.do(func() ([]byte, error) {
		b, err := s.get(ctx, i)
		if err == nil && c.prepares && !w.prepared {
			s.prepare(i, b)
		}
		return b, err
	})
}

// supply fetches the contents of a piece, as many at a time as Fetch returns.
type supply struct {
	fetch func(context.Context, []int) ([][]byte, error)
	of    []*worker
	have  map[int][]byte
}

// get returns the content for the piece's step i.
func (s *supply) get(ctx context.Context, i int) ([]byte, error) {
	n := s.of[i].step.N
	b, ok := s.have[n]
	if !ok {
		var ns []int
		for _, w := range s.of[i:] {
			if w.step.Do == "write" {
				ns = append(ns, w.step.N)
			}
		}
		all, err := s.fetch(ctx, ns)
		if err == nil && (len(all) == 0 || len(all) > len(ns)) {
			err = fmt.Errorf("the daemon sent %d contents for %d steps", len(all), len(ns))
		}
		if err != nil {
			return nil, err
		}
		s.have = map[int][]byte{}
		for i, b := range all {
			s.have[ns[i]] = b
		}
		b = all[0]
	}
	delete(s.have, n)
	return b, nil
}

// inPlace returns an error if a step concerns a path to which an earlier step failed to move
// something. The file or directory that is there instead must not be changed, and nothing must be
// moved into it.
func (c *execution) inPlace(s *wire.PlanStep) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range []string{string(s.Path), string(s.To)} {
		for ; len(c.unfit) > 0 && p != "." && p != ""; p = path.Dir(p) {
			if from, ok := c.unfit[p]; ok {
				return fmt.Errorf("%q could not be moved to %q", from, p)
			}
		}
	}
	return nil
}

// notMoved records that a step failed to move the path from. If something exists at the
// destination, it is another file or directory. The caller holds mu.
func (c *execution) notMoved(from, to string) {
	if _, err := c.places.lstat(to); err == nil {
		c.unfit[to] = from
	}
}

// ended records the outcome of a step. An error that it returns ends the plan.
func (c *execution) ended(w *worker, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && (!(c.plan.Resume && w.resultExists()) || w.stamp() != nil) {
		failed := wire.Conflict{Path: w.step.Path, Why: reason(err)}
		from, to := string(w.step.Path), string(w.step.To)
		switch w.step.Do {
		case "exchange":
			failed.To = w.step.To
			c.notMoved(to, from)
			c.notMoved(from, to)
		case "rename":
			failed.To = w.step.To
			c.notMoved(from, to)
		}
		c.res.Failed = append(c.res.Failed, failed)
		return nil
	}
	for _, why := range w.left {
		c.res.Left = append(c.res.Left, wire.Conflict{Path: w.step.Path, Why: why})
	}
	c.res.Done = append(c.res.Done, w.step.N)
	return c.work.After(w.step.N)
}

// reason returns the text of an error without the path, which is shown separately.
func reason(err error) string {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.Is(err, syscall.ENOTEMPTY):
		return "the directory holds other files"
	case errors.As(err, &p):
		return p.Op + ": " + p.Err.Error()
	case errors.As(err, &l):
		return l.Op + ": " + l.Err.Error()
	}
	return err.Error()
}

const tempPrefix = ".cachebro-"

// temporary returns a name in the file's directory that nobody else uses. It consists of the plan's
// ID and the step's number. A resumed plan therefore finds the file of a killed process.
func (w *worker) temporary() string {
	return fmt.Sprintf("%s%s-%d~", tempPrefix, w.plan.ID, w.step.N)
}

// Temporary reports whether a path is the name of a temporary file of Plan. Logs omit such files.
func Temporary(p []byte) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, tempPrefix) && strings.HasSuffix(base, "~")
}

// Files counts the files that a plan changes, as the log counts the files of an action. A created
// or removed directory counts only if no file in it counts.
func Files(p wire.Plan) int {
	paths, filled := map[string]bool{}, map[string]bool{}
	for _, st := range p.Steps {
		at := string(st.Path)
		paths[at] = paths[at] || st.Do != "mkdir" && st.Do != "rmdir"
		for i := strings.LastIndexByte(at, '/'); i > 0; i = strings.LastIndexByte(at[:i], '/') {
			filled[at[:i]] = true
		}
	}
	n := 0
	for at, file := range paths {
		if file || !filled[at] {
			n++
		}
	}
	return n
}
