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
	"time"

	"cachebro/store/undo/displace"
	"cachebro/store/wire"

	"golang.org/x/sync/errgroup"
)

// Work is what Plan needs of others. Its functions, except After, are called by
// several goroutines at once.
type Work struct {
	// Fetch returns the contents for the first of these steps of the plan, in
	// order, at least one; the others are asked for again.
	Fetch func(ctx context.Context, ns []int) ([][]byte, error)
	// After is called after each step that was done, so that the daemon's
	// journal keeps up, by one goroutine at a time; its error ends the work.
	After func(n int) error
	// Lock keeps others of this process from a path; may be nil.
	Lock func(path string) (unlock func())
	// Force: a file that is open for writing gets its content in place.
	Force bool
	// Watched: somebody sees the system calls of this thread, and tells the history of the
	// steps. All are carried out on it.
	Watched bool
}

// Result says which steps were done and which were not, with the reason.
type Result struct {
	Done   []int
	Failed []wire.Conflict
	// Left is what could not be given to files that are written all the same: an owner,
	// and with it a set-id bit.
	Left []wire.Conflict
}

// errChanged: the file is not as the plan expects.
var errChanged = errors.New("changed since the plan was made")

const (
	// inFlight steps wait for the mount and the daemon at once, so that neither
	// is idle while the other works.
	inFlight = 4
	// maxOpen bounds the directories that are open at once.
	maxOpen = 256
)

// Plan carries out the plan's steps below dir, in order where the order matters:
// contents and links of different files are written side by side, everything else
// waits for the steps before it. A cancelled ctx ends the work. The Result is
// complete in any case. When a plan is resumed, steps whose result is there already
// count as done.
func Plan(ctx context.Context, dir string, p wire.Plan, work Work) (Result, error) {
	// Who waits for the mount sits in a system call, and keeps the Go scheduler
	// from running others for 20 µs or more if there is no processor to spare.
	if len(p.Steps) > piece && runtime.GOMAXPROCS(0) < 2*inFlight {
		runtime.GOMAXPROCS(2 * inFlight)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Result{}, fmt.Errorf("open the project: %w", err)
	}
	c := &execution{plan: &p, work: work, places: newPlaces(root, &p), overlay: displace.Overlay(dir), done: map[int]bool{}}
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

// Sweep removes what a plan had begun that was cut short, where it had not come far
// enough for anything to be taken back.
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
			_ = root.Remove(path.Join(path.Dir(string(w.step.Path)), w.temporary()))
		}
	}
}

// execution is one plan under way.
type execution struct {
	plan   *wire.Plan
	work   Work
	places *places
	// overlay: the plan goes through a mount, which sends late writers to the new
	// file.
	overlay bool
	// prepares: the mount takes files that are about to be made many at once.
	prepares bool
	done     map[int]bool // by an earlier attempt

	// mu guards res and serialises work.After.
	mu  sync.Mutex
	res Result
}

// alone: steps that change which names lead where.
func alone(do string) bool {
	return do == "rmdir" || do == "rename" || do == "exchange" || do == "link"
}

// touched are the paths of steps that may still be under way.
type touched map[string]bool

// meet: a step for this path has to wait for one of them.
func (t touched) meet(name []byte) bool {
	for i, c := range name {
		if c == '/' && t[string(name[:i])] {
			return true
		}
	}
	return t[string(name)]
}

// piece is how many steps one goroutine does, and fetches the contents for, at a
// time; half as many if the next step is in another directory, because goroutines
// that make files in one directory wait for each other.
const piece = 32

// stretch carries out as many steps as may be done side by side, and says how
// many those were. It finds the directories of the next ones while the ones
// before are under way.
func (c *execution) stretch(ctx context.Context, steps []wire.PlanStep) (n int, err error) {
	under := touched{}
	g, inner := errgroup.WithContext(ctx)
	if c.prepares { // the mount is seldom waited for
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
		if n > 0 && (alone(s.Do) || alone(steps[n-1].Do) || under.meet(s.Path) || c.places.full()) {
			break
		}
		under[string(s.Path)] = true
		if c.done[s.N] {
			continue
		}
		err = inner.Err()
		if err != nil {
			break
		}
		w := &worker{execution: c, step: s, plan: c.plan, places: c.places}
		if lerr := w.locate(); lerr != nil {
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
	c.places.between(alone(steps[0].Do) && steps[0].Do != "link")
	return n, err
}

// inOrder is what one goroutine does. Where files were displaced, it waits once
// for all of them who may still come to the old ones.
func (c *execution) inOrder(ctx context.Context, ws []*worker) (err error) {
	if c.prepares { // the mount knows by the thread who prepared what
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

// do is one step, alone with its path.
func (c *execution) do(ctx context.Context, w *worker, s *supply, i int) error {
	if c.work.Lock != nil {
		defer c.work.Lock(string(w.step.Path))()
	}
	defer w.release()
	return w.do(ctx, func() ([]byte, error) {
		b, err := s.get(ctx, i)
		if err == nil && c.prepares && !w.prepared {
			s.prepare(i, b)
		}
		return b, err
	})
}

// supply fetches the contents of a piece, as many at once as come.
type supply struct {
	fetch func(context.Context, []int) ([][]byte, error)
	of    []*worker
	have  map[int][]byte
}

// get is the content for the piece's step i.
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
			err = fmt.Errorf("%d contents came for %d steps", len(all), len(ns))
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

// ended notes how a step went; its own error is one that ends the plan.
func (c *execution) ended(w *worker, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !(c.plan.Resume && w.there()) || err != nil && w.stamp() != nil {
		c.res.Failed = append(c.res.Failed, wire.Conflict{Path: w.step.Path, Why: reason(err)})
		return nil
	}
	for _, why := range w.left {
		c.res.Left = append(c.res.Left, wire.Conflict{Path: w.step.Path, Why: why})
	}
	c.res.Done = append(c.res.Done, w.step.N)
	return c.work.After(w.step.N)
}

// reason is an error without the path, which is shown beside it.
func reason(err error) string {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Op + ": " + p.Err.Error()
	case errors.As(err, &l):
		return l.Op + ": " + l.Err.Error()
	}
	return err.Error()
}

const tempPrefix = ".cachebro-"

// temporary is a name beside the file that nobody else uses: the plan's and the
// step's, so that who resumes a plan finds what a killed process left.
func (w *worker) temporary() string {
	return fmt.Sprintf("%s%s-%d~", tempPrefix, w.plan.ID, w.step.N)
}

// Temporary reports whether a path has the name of a file that Plan writes before
// it renames it: logs leave those out.
func Temporary(p []byte) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, tempPrefix) && strings.HasSuffix(base, "~")
}

// Files counts the files that a plan changes, as the log counts those of an action: a
// directory that is made or removed counts only where nothing in it does.
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
