package lost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/cache"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/spool"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/readers"
)

const (
	maxKept  = 1000 // records; the oldest go first
	maxSteps = 64   // versions between what was shown and what was replaced
	maxProcs = 2000 // processes whose reads are remembered
	maxText  = 2 << 20

	// readsLate is the longest time by which the record of a process's reads may arrive after the
	// record of its writes.
	readsLate = 3 * time.Second
)

// Loss is a write that lost lines that others had written.
type Loss struct {
	Seq        uint64            `json:"seq"` // of the write
	Path       store.Path        `json:"path"`
	Time       int64             `json:"time"`
	Reader     store.Reader      `json:"reader"`          // the reader that made the write
	Base       store.Hash        `json:"base"`            // the content that it was shown
	Shown      int64             `json:"shown"`           // when it was shown, in ns
	Known      []readers.Shown   `json:"known,omitempty"` // parts of later contents that it was shown
	Theirs     uint64            `json:"theirs"`          // the version that was replaced
	Shell      bool              `json:"shell,omitempty"` // a process of a command wrote it
	Proc       attribution.Key   `json:"proc"`
	Lost       bool              `json:"lost,omitempty"` // the loss is certain
	Lines      int               `json:"lines,omitempty"`
	Sample     string            `json:"sample,omitempty"` // the first lost line
	Restored   bool              `json:"back,omitempty"`   // the lines had been removed, and are back
	Others     []uint64          `json:"others,omitempty"` // the versions that had made or removed the lines
	Owners     []store.SessionID `json:"owners,omitempty"` // the sessions that made these versions
	ReportedTo []store.SessionID `json:"told,omitempty"`   // the sessions to which the loss was reported
}

// Service detects lost updates. A nil Service reports none.
type Service struct {
	store *store.Store
	shown *readers.Tracker
	kv    store.KV
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex // guards the rest; held over a few lookups in the store
	records []Loss     // by Seq; candidates and losses
	reads   *cache.Cache[attribution.Key, *procReads]
}

// procReads holds the paths that one process opened for reading.
type procReads struct {
	paths map[store.Path]int64 // when each path was last read
	all   int64                // when it last read more files than a record lists; 0 if never
}

// Open loads the stored records. now is the clock.
func Open(st *store.Store, shown *readers.Tracker, log *slog.Logger, now func() time.Time) (*Service, error) {
	s := &Service{store: st, shown: shown, kv: st.KV("lost"), log: log, now: now, reads: cache.New[attribution.Key, *procReads](2*maxProcs, nil)}
	err := s.kv.Scan("", func(_ string, val []byte) error {
		var l Loss
		if json.Unmarshal(val, &l) == nil && l.Seq > 0 {
			s.records = append(s.records, l)
		}
		return nil
	})
	slices.SortFunc(s.records, func(a, b Loss) int { return cmp.Compare(a.Seq, b.Seq) })
	return s, err
}

func key(seq uint64) string { return fmt.Sprintf("%016x", seq) }

func (s *Service) putLocked(l Loss) {
	i, found := slices.BinarySearchFunc(s.records, l.Seq, func(r Loss, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	if found {
		s.records[i] = l
	} else {
		s.records = slices.Insert(s.records, i, l)
	}
	b, err := json.Marshal(l)
	if err == nil {
		err = s.kv.Set(key(l.Seq), b)
	}
	if err != nil {
		s.log.Warn("lost update", "path", onwire.Display(l.Path), "err", err)
	}
	if len(s.records) > maxKept {
		s.dropLocked(s.records[0].Seq)
	}
}

func (s *Service) dropLocked(seq uint64) {
	i, found := slices.BinarySearchFunc(s.records, seq, func(r Loss, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	if !found {
		return
	}
	s.records = slices.Delete(s.records, i, i+1)
	if err := s.kv.Delete(key(seq)); err != nil {
		s.log.Warn("lost update", "err", err)
	}
}

// Examine examines versions that were just ingested.
func (s *Service) Examine(vs []store.Version) {
	var dirs store.DirMoves
	for i := range vs {
		v := &vs[i]
		along := dirs.Along(v) // if true, v was renamed with its directory and replaced nothing
		if v.Actor.Session != "" && v.Class == event.Tracked && !along {
			s.wrote(v)
		}
	}
}

// wrote examines one version. It stores a record if the version may have lost others' lines.
func (s *Service) wrote(v *store.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The previous version is looked up only if it can matter. It does not matter for most paths
	// that disappear with a renamed or removed directory.
	file := v.Blob != (store.Hash{}) && v.Stat.IsRegular()
	could := file && v.Plan == "" && !v.Actor.Uncertain && !inPlace(v.Actor.Tool)
	if !could && !slices.ContainsFunc(s.records, func(r Loss) bool { return r.Path == v.Path }) {
		return
	}
	prev, found, err := s.store.AtSeq(v.Path, v.Seq-1)
	if err != nil || !found {
		return
	}
	if sameRun(prev.Actor, v.Actor) {
		s.dropLocked(prev.Seq) // that version, such as a truncation, was part of this write
	}
	if !could || prev.Blob == v.Blob {
		return
	}
	switch v.Op {
	case store.OpCreate, store.OpWrite, store.OpTruncate, store.OpRename:
	default:
		return
	}
	r := store.Reader{Session: v.Actor.Session, Agent: v.Actor.Agent}
	base, at, known, ok := s.shown.ShownBefore(r, v.Path, v.Time)
	if !ok || base == prev.Blob && prev.Time <= at {
		return
	}
	l := Loss{
		Seq: v.Seq, Path: v.Path, Time: v.Time, Reader: r, Base: base, Shown: at, Known: known, Shell: v.Actor.Tool == "Bash" || v.Actor.Tool == "",
		Proc: attribution.Key{PID: v.Actor.PID, Start: v.Actor.Start},
	}
	way, err := s.versionsBetween(&l, *v)
	if err != nil || !slices.ContainsFunc(way, func(o store.Version) bool { return l.madeByOther(o) }) {
		return
	}
	theirs := way[len(way)-1]
	l.Theirs = theirs.Seq
	if l.Shell && s.readLocked(l, theirs.Time) {
		return
	}
	s.putLocked(l)
}

// sameRun reports whether the same tool call, or the same process of a command, made both
// versions.
func sameRun(a, b store.Actor) bool {
	if a.Session != b.Session || a.Agent != b.Agent || a.ToolCall != b.ToolCall {
		return false
	}
	return a.ToolCall != "" || a.PID == b.PID && a.Start == b.Start
}

// inPlace reports whether a tool replaces text that it finds in the file. The model supplied that
// text, so it knew what it removed.
func inPlace(tool string) bool {
	switch tool {
	case "Edit", "MultiEdit", "NotebookEdit":
		return true
	}
	return strings.HasSuffix(tool, "edit_file") || strings.HasSuffix(tool, "update_node")
}

// madeByOther reports whether o was made by somebody whose work the reader does not know. A process of
// the reader's session outside all tool calls is a hook's formatter, so its work counts as known. A
// writer that bypassed the mount may be the session itself, so it does not count as somebody else.
func (l *Loss) madeByOther(o store.Version) bool {
	a := o.Actor
	switch {
	case a.Comm == attribution.Outsider.Comm && a.PID == 0:
		return false
	case a.Session != l.Reader.Session:
		return true
	case o.Plan != "":
		return a.ToolCall == "" // the person typed it
	}
	return a.Agent != l.Reader.Agent && a.ToolCall != "" && !a.Uncertain
}

var errNotInHistory = errors.New("the version that the reader was shown is not in the history")

// versionsBetween lists the versions from the one that the reader was shown to the one that the
// write replaced, both included.
func (s *Service) versionsBetween(l *Loss, v store.Version) (way []store.Version, err error) {
	err = s.store.View(func(view *store.View) error {
		for below := v.Seq; len(way) < maxSteps; {
			o, found, err := view.AtSeq(v.Path, below-1)
			switch {
			case err != nil:
				return err
			case !found || o.Deleted() || o.Blob == (store.Hash{}):
				return errNotInHistory
			case len(way) == 0 && sameRun(o.Actor, v.Actor): // o and v are one write
			default:
				way = append(way, o)
			}
			below = o.Seq
			if o.Blob == l.Base && o.Time <= l.Shown && len(way) > 0 {
				slices.Reverse(way)
				return nil
			}
		}
		return errNotInHistory
	})
	return way, err
}

// RecordReads records that a process has opened files for reading.
func (s *Service) RecordReads(r *spool.Record) {
	k := attribution.WriterOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.reads.GetOr(k, func() *procReads { return &procReads{paths: map[store.Path]int64{}} })
	for _, path := range r.Paths {
		p.paths[store.Path(path)] = r.Time
	}
	if r.More > 0 {
		p.all = r.Time
	}
	for i := len(s.records) - 1; i >= 0; i-- { // this record may arrive after the record of the writes
		if l := s.records[i]; l.Shell && l.Proc == k {
			if theirs, err := s.store.Version(l.Theirs); err == nil && s.readLocked(l, theirs.Time) {
				s.dropLocked(l.Seq)
			}
		}
	}
}

// readLocked reports whether the writing process had read the file after the others' change.
func (s *Service) readLocked(l Loss, since int64) bool {
	p, _ := s.reads.Get(l.Proc)
	return p != nil && (p.paths[l.Path] >= since || p.all >= since)
}

// All returns the losses, oldest first. If wait is set, it first waits until everything written so
// far is examined, which may take some seconds.
func (s *Service) All(ctx context.Context, wait bool) []Loss {
	if s == nil {
		return nil
	}
	for {
		out, open := s.judge()
		if open <= 0 || !wait {
			return out
		}
		if !loop.Pause(ctx, open) {
			return out
		}
	}
}

// judge decides which candidates are losses. open is how long the last undecided candidate must
// still wait.
func (s *Service) judge() (out []Loss, open time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range slices.Clone(s.records) {
		if !l.Lost {
			lost, err := s.judgeLocked(&l, store.Hash{})
			if !lost {
				s.dropLocked(l.Seq)
				if err != nil {
					s.log.Debug("lost update", "path", onwire.Display(l.Path), "err", err)
				}
				continue
			}
			if left := readsLate - s.now().Sub(time.Unix(0, l.Time)).Abs(); l.Shell && left > 0 {
				open = max(open, left)
				continue
			}
			l.Lost = true
			s.putLocked(l)
		}
		out = append(out, l)
	}
	return out, open
}

// judgeLocked determines the lines that a write has lost. It looks for them in the content that was
// written or, if the hash now is set, in the content with that hash. It returns false if nothing
// was lost.
func (s *Service) judgeLocked(l *Loss, now store.Hash) (bool, error) {
	v, err := s.store.Version(l.Seq)
	if err != nil {
		return false, err
	}
	way, err := s.versionsBetween(l, v)
	if err != nil {
		return false, err
	}
	var steps []step
	for _, o := range way {
		b, err := s.content(o.Blob)
		if err != nil {
			return false, err
		}
		steps = append(steps, step{text: b, other: len(steps) > 0 && l.madeByOther(o)})
	}
	if now == (store.Hash{}) {
		now = v.Blob
	}
	result, err := s.content(now)
	if err != nil {
		return false, err
	}
	var known [][]byte
	for _, k := range l.Known {
		b, err := s.content(k.Hash)
		if err != nil {
			return false, err
		}
		lines := diff.Lines(b)
		if k.First >= 1 && k.First <= k.Last {
			known = append(known, lines[min(k.First-1, len(lines)):min(k.Last, len(lines))]...)
		}
	}
	gone := compare(steps, result, known)
	if len(gone) == 0 {
		return false, nil
	}
	l.Lines = 0
	l.Others, l.Owners = nil, nil
	l.Theirs = way[len(way)-1].Seq
	l.Sample = strings.TrimSpace(gone[0].line)
	l.Restored = gone[0].restored
	for _, m := range gone { // a changed line counts as removed and added, so count it once
		if m.restored == l.Restored {
			l.Lines++
		}
	}
	for _, m := range gone {
		o := way[m.step]
		if !slices.Contains(l.Others, o.Seq) {
			l.Others = append(l.Others, o.Seq)
		}
		if id := o.Actor.Session; id != "" && !slices.Contains(l.Owners, id) {
			l.Owners = append(l.Owners, id)
		}
	}
	return true, nil
}

// stillLostLocked reports whether the file still lacks the lost lines.
func (s *Service) stillLostLocked(l Loss) bool {
	v, found, err := s.store.Current(l.Path)
	if err != nil || !found || v.Deleted() {
		return false
	}
	lost, err := s.judgeLocked(&l, v.Blob)
	return lost && err == nil
}

var errNoText = errors.New("no text, or too much of it")

func (s *Service) content(h store.Hash) ([]byte, error) {
	b, err := s.store.Content(h)
	if err != nil {
		return nil, err
	}
	shown, ok := text.Shown(b)
	if !ok || len(b) > maxText {
		return nil, errNoText
	}
	return shown, nil
}

// Marks describes each loss, keyed by the version that caused it. has selects these versions.
func (s *Service) Marks(ctx context.Context) (marks map[uint64]string, has func(store.Version) bool) {
	marks = map[uint64]string{}
	for _, l := range s.All(ctx, true) {
		marks[l.Seq] = s.Mark(l)
	}
	return marks, func(v store.Version) bool { return marks[v.Seq] != "" }
}

// Mark describes a loss in a few words.
func (s *Service) Mark(l Loss) string {
	by := "others"
	if v, ok := s.NewestLost(l); ok {
		by = attribution.ByWhom(v.Actor)
		if v.Plan != "" {
			by = "an undo"
		}
		by = fmt.Sprintf("version %d by %s", v.Seq, by)
	}
	if l.Restored {
		return fmt.Sprintf("lost update: %s reverted to before %s", text.Count(l.Lines, "line"), by)
	}
	return fmt.Sprintf("lost update: missing %s of %s", text.Count(l.Lines, "line"), by)
}

// NewestLost returns the newest version whose lines a write lost.
func (s *Service) NewestLost(l Loss) (store.Version, bool) {
	if len(l.Others) == 0 {
		return store.Version{}, false
	}
	v, err := s.store.Version(slices.Max(l.Others))
	return v, err == nil
}

// Unreported returns the losses after the version since that a session caused or suffered. It omits
// losses that are no longer in effect or were reported to the session before. Afterwards the
// returned losses count as reported.
func (s *Service) Unreported(session store.SessionID, since uint64) (out []Loss) {
	for _, l := range s.All(context.Background(), false) {
		if l.Seq <= since || slices.Contains(l.ReportedTo, session) || l.Reader.Session != session && !slices.Contains(l.Owners, session) {
			continue
		}
		l.ReportedTo = append(slices.Clone(l.ReportedTo), session)
		s.mu.Lock()
		s.putLocked(l)
		is := s.stillLostLocked(l)
		s.mu.Unlock()
		if is {
			out = append(out, l)
		}
	}
	return out
}
