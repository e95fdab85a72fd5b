// Package gitstate records what happened to the project's git directories, and plans how to undo
// it. Git's own files are not files of the project, so no other package shows, searches or undoes
// them.
//
// A row holds the state of one path in a git directory before somebody changed it. The state after
// the change is in the path's next row. If there is no next row, it is the present state. A content
// is in its row or, as a hard link, in the git part of the state directory, where mountd saved it
// (fusefs/capture/git.go). Removed objects are saved there without rows, as an object directory
// that git can read.
package gitstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/cmd/cachebro/daemon/actions"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"

	"github.com/fxamacker/cbor/v2"
)

// row is the state of a path of a git directory before somebody changed it. It is stored as a
// CBOR map, under the day and the number of the spool's record.
type row struct {
	Seq    uint64      `cbor:"-"`
	Path   []byte      `cbor:"1,keyasint"`
	Was    spool.Was   `cbor:"2,keyasint"`
	Time   int64       `cbor:"3,keyasint"`
	Until  int64       `cbor:"4,keyasint,omitempty"` // time of the last change by the same process
	Mode   uint32      `cbor:"5,keyasint,omitempty"`
	UID    uint32      `cbor:"6,keyasint,omitempty"`
	GID    uint32      `cbor:"7,keyasint,omitempty"`
	Size   int64       `cbor:"8,keyasint,omitempty"`
	Before []byte      `cbor:"9,keyasint,omitempty"`  // the content, or the name of the saved file
	Begin  int64       `cbor:"10,keyasint,omitempty"` // with spool.WasBegin: the length of the earlier content
	Target []byte      `cbor:"11,keyasint,omitempty"` // of a symlink; the new name of a directory
	Why    string      `cbor:"12,keyasint,omitempty"`
	Actor  store.Actor `cbor:"13,keyasint"`
	Plan   string      `cbor:"14,keyasint,omitempty"`
	Ino    uint64      `cbor:"15,keyasint,omitempty"` // of a directory that was moved
	Op     event.Op    `cbor:"16,keyasint,omitempty"` // the last operation
	index  int         // in its chain, see history
}

func (r *row) lastChange() int64 { return max(r.Time, r.Until) }

func (r *row) path() string { return string(r.Path) }

// version returns a version that represents the row in queries about who did what.
func (r *row) version() store.Version {
	return store.Version{Path: store.Path(r.Path), Time: r.Time, Actor: r.Actor, Plan: r.Plan}
}

const (
	bucket = "git"
	day    = int64(24 * time.Hour)
)

func key(r *row) string { return fmt.Sprintf("r/%08x/%016x", r.Time/day, r.Seq) }

// Service stores the rows and answers requests about them.
type Service struct {
	dir     string // where mountd saves files
	kv      store.KV
	source  *source.Source
	actions *actions.Service
	log     *slog.Logger
	budget  int64 // bytes of saved files

	// mu guards the fields below.
	mu    sync.Mutex
	open  map[string]*row // by path: the newest row
	due   map[string]*row // by key: to be stored
	usage usage
	// digests caches the digests of saved indexes.
	digests map[string][32]byte
}

// New makes the service. dir is the part of the state directory for git.
func New(dir string, st *store.Store, src *source.Source, log *slog.Logger) *Service {
	return &Service{dir: dir, kv: st.KV(bucket), source: src, log: log, budget: limits.Git, open: map[string]*row{}, due: map[string]*row{}, digests: map[string][32]byte{}}
}

// SetActions sets the service that describes who did what.
func (s *Service) SetActions(a *actions.Service) { s.actions = a }

const maxOpen = 10_000

// Take turns a record of the spool into a row.
func (s *Service) Take(r *spool.Record, by store.Actor, plan string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.open[r.Path]
	if r.Was == spool.WasSame && last != nil && last.Actor.PID == by.PID && last.Actor.Start == by.Start {
		last.Until, last.Op = max(last.Until, r.Time), r.Op
		s.due[key(last)] = last
		return
	}
	n := &row{
		Seq: r.Seq, Path: []byte(r.Path), Was: r.Was, Time: r.Time, Mode: r.Stat.Mode, UID: r.Stat.UID, GID: r.Stat.GID, Size: r.Stat.Size,
		Before: r.Before, Begin: r.Len, Target: []byte(r.Target), Why: r.Reason, Actor: by, Plan: plan, Op: r.Op,
	}
	if r.Was == spool.WasMoved {
		n.Target, n.Ino = []byte(r.Path2), r.Stat.Ino
	}
	if len(s.open) >= maxOpen {
		clear(s.open)
	}
	s.open[r.Path], s.due[key(n)] = n, n
}

// Keep stores the rows that Take made or changed.
func (s *Service) Keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return nil
	}
	vals := make(map[string][]byte, len(s.due))
	for k, r := range s.due {
		b, err := cbor.Marshal(r)
		if err != nil {
			return err
		}
		vals[k] = b
	}
	clear(s.due)
	return s.kv.SetAll(vals)
}

// history holds the rows since a time, by path and in order.
type history struct {
	s      *Service
	rows   []*row
	chains map[string][]*row      // by path: its rows, oldest first
	states map[string][]pathState // by path: its state before each row of its chain, then its present state
	packed map[string]map[string]string
	dir    *source.Dir
}

var errTooMany = errors.New("too many changes of git's own files to examine at once")

const maxRows = 200_000

// readSince reads the rows since a time. close releases the source directory.
func (s *Service) readSince(ctx context.Context, from int64) (*history, error) {
	h := &history{s: s, chains: map[string][]*row{}, states: map[string][]pathState{}, packed: map[string]map[string]string{}}
	if from > 0 {
		from -= 2 * silence // to include whole operations
	}
	first := max(from, time.Now().Add(-limits.GitFor-48*time.Hour).UnixNano()) / day
	for d := first; d <= time.Now().UnixNano()/day+1; d++ {
		if err := s.kv.Scan(fmt.Sprintf("r/%08x/", d), func(k string, val []byte) error {
			r := &row{}
			if cbor.Unmarshal(val, r) != nil {
				return nil // skip a damaged row, or one that a newer cachebro wrote
			}
			if _, err := fmt.Sscanf(k[len("r/00000000/"):], "%x", &r.Seq); err != nil || r.lastChange() < from {
				return nil
			}
			h.rows = append(h.rows, r)
			if len(h.rows) > maxRows {
				return errTooMany
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(h.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Seq, b.Seq))
	})
	h.join()
	var err error
	h.dir, err = s.source.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// join adds the rows to their chains. If the daemon was replaced while a process continued, join
// merges that process's rows.
func (h *history) join() {
	rows := h.rows[:0]
	for _, r := range h.rows {
		c := h.chains[r.path()]
		if n := len(c); r.Was == spool.WasSame {
			if n > 0 && c[n-1].Actor.PID == r.Actor.PID && c[n-1].Actor.Start == r.Actor.Start {
				c[n-1].Until, c[n-1].Op = max(c[n-1].Until, r.lastChange()), r.Op
				continue
			}
			r.Was, r.Why = spool.WasLost, "the state before it is not known"
		}
		r.index = len(c)
		h.chains[r.path()] = append(c, r)
		rows = append(rows, r)
	}
	h.rows = rows
}

func (h *history) close() { h.s.source.Release(h.dir) }

// operation holds the rows of one process. An operation of git also holds the rows of all processes
// that git started.
type operation struct {
	key     string // the key of its action in the log
	pid     uint32 // of the topmost process
	command string
	gitSeen int64 // when git's process was first seen; 0 for other processes, which may be old
	rows    []*row
}

func (o *operation) id() uint64   { return o.rows[0].Seq }
func (o *operation) begin() int64 { return o.rows[0].Time }
func (o *operation) end() (t int64) {
	for _, r := range o.rows {
		t = max(t, r.lastChange())
	}
	return t
}

// changesSince returns the time after which changes of files by the operation's process belong to
// the operation. It is before the first row, because git changes files before refs.
func (o *operation) changesSince() int64 {
	if o.gitSeen > 0 {
		return min(o.gitSeen, o.begin())
	}
	return o.begin() - silence
}

// silence is the time without a change that ends an operation, as it ends a job in the log.
const silence = int64(30 * time.Second)

// undoing is the prefix of the plan names that undos of git's own files use.
const undoing = "git undo-"

func (h *history) operations() []*operation {
	namer := h.s.actions.NewNamer()
	var all []*operation
	open := map[string]*operation{}
	for _, r := range h.rows {
		v := r.version()
		top, command, seen := namer.TopAncestor(v, func(comm string) bool { return comm == "git" || strings.HasPrefix(comm, "git-") })
		action := namer.Key(v)
		if command == "" || r.Plan != "" {
			command = namer.Command(v)
		}
		k := fmt.Sprint(action, " ", top)
		o := open[k]
		if o == nil || r.Time-o.end() > silence {
			o = &operation{key: action, pid: top.PID, command: command, gitSeen: seen}
			open[k], all = o, append(all, o)
		}
		o.rows = append(o.rows, r)
	}
	return all
}

// Between returns the operations in a period that are worth showing to a person, oldest first.
func (s *Service) Between(ctx context.Context, from, to time.Time) ([]wire.GitOp, error) {
	if s.none() {
		return nil, nil
	}
	begin := int64(0)
	if !from.IsZero() {
		begin = from.UnixNano()
	}
	h, err := s.readSince(ctx, begin)
	if err != nil {
		return nil, err
	}
	defer h.close()
	var out []wire.GitOp
	for _, o := range h.operations() {
		if !to.IsZero() && o.begin() > to.UnixNano() {
			break
		}
		last := o.rows[len(o.rows)-1]
		if text := h.text(o); text != "" {
			out = append(out, wire.GitOp{ID: o.id(), Key: o.key, Begin: onwire.Time(o.begin()), End: onwire.Time(o.end()), Actor: onwire.Actor(last.Actor), Command: o.command, Text: text})
		}
	}
	return out, nil
}

// errStopScan ends a scan early. It is not a failure.
var errStopScan = errors.New("enough")

// none reports whether nothing is recorded for any repository, which is the usual case.
func (s *Service) none() bool {
	return s.kv.Scan("r/", func(string, []byte) error { return errStopScan }) == nil
}
