package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// Filter selects versions. The zero value selects everything except baselines, newest
// first, at most 1,000.
type Filter struct {
	// Path is a file or a directory. For a file the filter follows its renames; for a directory it
	// selects the subtree. "" selects everything.
	Path Path

	Session  SessionID
	Agent    string
	Prompt   string
	ToolCall string
	Plan     string

	Since, Until  time.Time // both included; zero: no bound
	Before, After uint64    // both excluded; 0: no bound
	Ops           []Op      // empty: all
	Oldest        bool      // oldest first
	Limit         int       // 0: 1,000
	Baselines     bool      // include the versions that the baseline scan made
	Match         func(Version) bool
	// Pass, if not nil, returns true for a block that can be skipped. It is called only for blocks
	// written by a single process. It is not called if an index can answer the filter.
	Pass func(Block) bool
}

// Block is a part of the log that one process wrote.
type Block struct {
	First, Last uint64 // version numbers; some of them may have been dropped
	Min, Max    int64  // times in ns
	Gap         int64  // the longest pause between two versions
	Who         uint64 // see Version.Who
}

const defaultLimit = 1000

// Log returns the versions that a filter selects. more is true if there are more than the limit.
// The caller can then continue with Before or After.
func (s *Store) Log(f Filter) (vs []Version, more bool, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	err = s.View(func(v *View) error {
		return v.Each(f, func(o Version) bool {
			if len(vs) == limit {
				more = true
				return false
			}
			vs = append(vs, o)
			return true
		})
	})
	return vs, more, err
}

// Each calls fn with the versions that a filter selects, until fn returns false. It ignores the
// filter's limit.
func (v *View) Each(f Filter, fn func(Version) bool) error {
	f, err := v.bounded(f)
	if err != nil {
		return err
	}
	take := func(o Version) bool { return !f.selects(o) || fn(o) }
	if f.Path != "" {
		file, err := v.isFile(f.Path)
		if err != nil {
			return err
		}
		if file {
			path := f.Path
			f.Path = "" // earlier versions may have another name
			if !f.Oldest {
				return v.back(path, take)
			}
			hist, err := v.History(path, true)
			if err != nil {
				return err
			}
			for _, o := range hist {
				if !take(o) {
					break
				}
			}
			return nil
		}
	}
	if kind, id := f.index(); id != "" {
		return v.scanIndex(kind, id, !f.Oldest, take)
	}
	from := ^uint64(0)
	switch {
	case f.Oldest:
		from = f.After + 1
	case f.Before > 0:
		from = f.Before - 1
	}
	over := pass{baselines: !f.withBaselines(), within: f.Path, after: f.After, before: f.Before}
	if f.Pass != nil {
		over.block = func(blk uint64, t times) bool {
			b := Block{blk * BlockVersions, blk*BlockVersions + BlockVersions - 1, t.Min, t.Max, t.Gap, t.Who}
			before := f.Before == 0 || b.Last < f.Before
			within := b.First > f.After && before && b.Last <= v.seq
			return t.Who != 0 && within && f.Pass(b)
		}
	}
	return v.scan(from, !f.Oldest, take, over)
}

// Changed calls fn with the versions of a path and its subtree, newest first, until fn returns
// false. Baselines come after all other versions, and only if they recorded a change of a known
// path. For a file, fn is called only with the newest version.
func (s *Store) Changed(below Path, fn func(Version) bool) error {
	return s.View(func(v *View) error {
		if file, err := v.isFile(below); err != nil {
			return err
		} else if file {
			o, _, err := v.Current(below)
			if err == nil {
				fn(o)
			}
			return err
		}
		on := true
		err := v.scan(^uint64(0), true, func(o Version) bool {
			on = fn(o)
			return on
		}, pass{baselines: true, within: below})
		if err != nil || !on {
			return err
		}
		return v.scan(^uint64(0), true, func(o Version) bool {
			return o.Op != OpBaseline || o.Prev == 0 || fn(o)
		}, pass{within: below})
	})
}

// ChangedAfter calls fn with the path of each version after seq, baselines included, oldest
// first. It decodes no other field of the versions.
func (v *View) ChangedAfter(seq uint64, fn func(Path)) error {
	c := v.cursor(false, 64)
	defer c.it.Close()
	for c.seek(seq + 1); c.valid() && c.seq() <= v.seq; c.next() {
		if c.in != nil {
			o, _ := c.in.get(c.at)
			fn(o.Path)
			continue
		}
		err := c.it.Item().Value(func(val []byte) error {
			if p, _, _, ok := skim(val); ok {
				fn(Path(p))
				return nil
			}
			o, err := decodeVersion(c.it.Item().Key(), val)
			if err == nil {
				fn(o.Path)
			}
			return err
		})
		if err != nil {
			return damaged(err)
		}
	}
	return damaged(c.err)
}

// bounded returns the filter with its times replaced by sequence numbers, which stay in order even
// if the clock is changed.
func (v *View) bounded(f Filter) (Filter, error) {
	if !f.Since.IsZero() {
		at, err := v.SeqAt(f.Since.Add(-1))
		if err != nil {
			return f, err
		}
		f.After, f.Since = max(f.After, at), time.Time{}
	}
	if !f.Until.IsZero() {
		at, err := v.SeqAt(f.Until)
		if err != nil {
			return f, err
		}
		f.Until = (time.Time{})
		if f.Before == 0 || f.Before > at {
			f.Before = at + 1
		}
	}
	return f, nil
}

// SeqAt returns the number of the last version made at or before t. It ignores versions with a time
// in the future. If the clock was set back, it returns the version before the first one that is
// later than t.
func (v *View) SeqAt(t time.Time) (uint64, error) {
	n, now := t.UnixNano(), v.s.opt.Now().UnixNano()
	at := v.seq
	err := v.scan(0, false, func(o Version) bool {
		if o.Time > n && o.Time <= now {
			at = o.Seq - 1
			return false
		}
		return true
	}, pass{block: func(_ uint64, b times) bool { return b.Max <= n || b.Min > now }})
	return at, err
}

// SeqAt is like View.SeqAt, on the present history.
func (s *Store) SeqAt(t time.Time) (at uint64, err error) {
	err = s.View(func(v *View) (err error) { at, err = v.SeqAt(t); return })
	return at, err
}

// EndOfOperation returns the newest version of the operation that made version seq. A rename makes
// two versions, and the rename of a directory makes two for each path in it. Between those versions
// the log describes a tree that never existed.
func (v *View) EndOfOperation(seq uint64) (uint64, error) {
	renamed := func(o Version) bool { return o.Op == OpMoved || o.Op == OpRename || o.Op == OpExchange }
	first, err := v.Version(seq)
	if errors.Is(err, ErrNotFound) || err == nil && !renamed(first) {
		return seq, nil
	}
	if err != nil {
		return seq, err
	}
	whole := seq
	err = v.scan(seq, false, func(o Version) bool {
		same := renamed(o) && o.Time == first.Time && o.Actor.PID == first.Actor.PID
		if same {
			whole = o.Seq
		}
		return same
	}, pass{})
	return whole, err
}

// index returns the narrowest index that can answer the filter.
func (f *Filter) index() (byte, string) {
	switch {
	case f.Plan != "":
		return ixPlan, f.Plan
	case f.ToolCall != "":
		return ixTool, f.ToolCall
	case f.Prompt != "":
		return ixPrompt, f.Prompt
	}
	return ixSession, string(f.Session)
}

// selects reports whether a bounded filter selects v.
func (f *Filter) selects(v Version) bool {
	switch {
	case f.Path != "" && !v.Path.Inside(f.Path),
		f.Session != "" && v.Actor.Session != f.Session,
		f.Agent != "" && v.Actor.Agent != f.Agent,
		f.Prompt != "" && v.Actor.Prompt != f.Prompt,
		f.ToolCall != "" && v.Actor.ToolCall != f.ToolCall,
		f.Plan != "" && v.Plan != f.Plan,
		f.Before > 0 && v.Seq >= f.Before,
		v.Seq <= f.After && f.After > 0,
		len(f.Ops) > 0 && !slices.Contains(f.Ops, v.Op),
		v.Op == OpBaseline && !f.withBaselines():
		return false
	}
	return f.Match == nil || f.Match(v)
}

func (f *Filter) withBaselines() bool { return f.Baselines || slices.Contains(f.Ops, OpBaseline) }

// isFile reports whether a path is or last was a file. It returns false for a directory, and for a
// path with children but without versions of its own.
func (v *View) isFile(p Path) (bool, error) {
	o, found, err := v.Current(p)
	if err != nil || !found {
		return false, err
	}
	return !o.Stat.IsDir() && o.Op != OpRmdir && o.Op != OpMkdir, nil // Stat may be unknown
}

// scanIndex calls fn with the versions listed in an i index, in either direction.
func (v *View) scanIndex(kind byte, id string, down bool, fn func(Version) bool) error {
	prefix := keyIndexPrefix(kind, id)
	it := v.txn.NewIterator(badger.IteratorOptions{Reverse: down, Prefix: prefix})
	defer it.Close()
	from := prefix
	if down {
		from = keyIndex(kind, id, ^uint64(0))
	}
	log := db.NewWalk(v.txn, []byte{kVersion})
	defer log.It.Close()
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != len(prefix)+8 {
			continue
		}
		seq := binary.BigEndian.Uint64(key[len(prefix):])
		if seq > v.seq {
			continue
		}
		if g := v.s.groups.covering(seq); g != nil {
			on, at := true, g.first
			if down {
				at = g.last
			}
			err := v.scan(at, down, func(o Version) bool {
				on = fn(o)
				return on
			}, pass{after: g.first - 1, before: g.last + 1})
			if err != nil || !on {
				return err
			}
			continue
		}
		var o Version
		var err error
		n++
		if !down && log.Pays(n) { // use one walk, because the versions of a session are close together in the log
			at := keyVersion(seq)
			log.To(at)
			if !log.It.ValidForPrefix(at) {
				continue
			}
			err = log.It.Item().Value(func(val []byte) (err error) { o, err = decodeVersion(at, val); return })
			err = damaged(err)
		} else {
			o, err = v.Version(seq)
			if errors.Is(err, ErrNotFound) {
				continue
			}
		}
		if err != nil {
			return err
		}
		if !fn(o) {
			return nil
		}
	}
	return nil
}
