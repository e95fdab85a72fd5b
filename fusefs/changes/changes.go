// Package changes records which paths of a mount have changed, for programs that would otherwise
// look at every file, such as git's fsmonitor. The overlay's request handlers call it directly. It
// records excluded paths too, which the version log does not contain.
//
// The record is in memory and belongs to one server of one mount. Tokens carry an epoch that ends
// with that server, so a period in which this server did not run is never taken for a period
// without changes. If the Tracker cannot know what has changed, it reports that everything may have
// changed.
//
// # Generations
//
// Each query begins a new generation. A path is noted at most once in a generation, so a path that
// changes ten times between two queries costs one entry. A caller that has already noted an inode
// in the current generation need not look up its path again. A token contains the first generation
// whose changes its holder has not received.
//
// A writer first changes the file, then notes the path, and then replies to the caller. So if a
// query misses a change, the process that made the change is still waiting, and the next query
// reports it.
//
// Before the first query, and after too many changes without a query, the tracker sleeps: it notes
// nothing and costs one atomic load per change.
//
// Tracker.mu guards all fields except active and gen. It is a leaf lock: while it is held, no other
// lock is taken.
package changes

import (
	"crypto/rand"
	"encoding/hex"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultLimit paths take about 2 MB. With more changed paths than that, git is as fast when it
	// looks at every file.
	defaultLimit = 16384
	// maxAge limits the age of a token. Some changes in the source are never reported, such as
	// those made through another name of the file, outside the project. The kernel trusts its own
	// cache for an hour too.
	maxAge = time.Hour
)

// Tracker records the changed paths of one server.
type Tracker struct {
	active atomic.Bool   // changed under mu
	gen    atomic.Uint64 // the current generation, from 1; changed under mu

	mu      sync.Mutex
	epoch   string
	limit   int
	clock   func() time.Duration // the time since a fixed point; never decreases
	floor   uint64               // the oldest generation whose changes are all known
	entries []entry              // by generation
	index   map[string]int       // the index of a path in entries
}

type entry struct {
	path string // "" if a later entry replaced this one
	gen  uint64
}

// New returns a Tracker with a new epoch. It stores at most limit paths; 0 means defaultLimit.
func New(limit int) *Tracker {
	if limit <= 0 {
		limit = defaultLimit
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // rand.Read never fails
	begun := time.Now()
	j := &Tracker{epoch: hex.EncodeToString(id[:]), limit: limit, clock: func() time.Duration { return time.Since(begun) }}
	j.gen.Store(1)
	return j
}

// Active reports whether changes must be noted. If false, changes made before the call need not be
// noted.
func (j *Tracker) Active() bool { return j.active.Load() }

// Gen returns the current generation, which is never 0.
func (j *Tracker) Gen() uint64 { return j.gen.Load() }

// Note records that path was changed, and returns the generation in which it was noted.
func (j *Tracker) Note(path string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	gen := j.gen.Load()
	if !j.active.Load() {
		return gen
	}
	i, known := j.index[path]
	if known {
		if j.entries[i].gen == gen {
			return gen
		}
		j.entries[i].path = ""
	}
	j.index[path] = len(j.entries)
	j.entries = append(j.entries, entry{path, gen})
	if len(j.index) > j.limit {
		j.shrinkLocked()
	} else if len(j.entries) > 2*j.limit {
		j.keepLocked(j.entries)
	}
	return gen
}

// Fresh reports whether path was noted since the last query.
func (j *Tracker) Fresh(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, known := j.index[path]
	return known && j.entries[i].gen == j.gen.Load()
}

// Everything records that any path may have changed.
func (j *Tracker) Everything() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sleepLocked()
}

// sleepLocked invalidates all tokens. Nothing more is noted until the next query.
func (j *Tracker) sleepLocked() {
	j.active.Store(false)
	j.floor = j.gen.Add(1)
	j.entries, j.index = nil, nil
}

// shrinkLocked drops the older half of the entries, in whole generations, and invalidates the
// tokens that need them. If all entries are of one generation, there was no query for a long time,
// and the tracker sleeps.
func (j *Tracker) shrinkLocked() {
	cut := j.entries[len(j.entries)/2].gen + 1
	from := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].gen >= cut })
	if from == len(j.entries) {
		j.sleepLocked()
		return
	}
	j.floor = max(j.floor, cut)
	j.keepLocked(j.entries[from:])
}

// keepLocked keeps the entries in all that were not replaced, and drops the others.
func (j *Tracker) keepLocked(all []entry) {
	kept := make([]entry, 0, j.limit)
	clear(j.index)
	for _, e := range all {
		if e.path != "" {
			j.index[e.path] = len(kept)
			kept = append(kept, e)
		}
	}
	j.entries = kept
}

// Since returns the paths that changed since the query that returned token, in no particular order,
// and the token for the next query. If all is set, everything may have changed.
func (j *Tracker) Since(token string) (next string, paths []string, all bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, ok := j.parseLocked(token)
	ok = ok && j.active.Load() && from >= j.floor && from <= j.gen.Load()
	if ok {
		first := sort.Search(len(j.entries), func(i int) bool { return j.entries[i].gen >= from })
		for _, e := range j.entries[first:] {
			if e.path != "" {
				paths = append(paths, e.path)
			}
		}
	}
	gen := j.gen.Add(1)
	if !j.active.Load() {
		j.floor, j.index = gen, map[string]int{}
		j.active.Store(true)
	}
	return j.tokenLocked(gen), paths, !ok
}

// Doubt returns a token that is never valid. It is for a server that cannot know what has changed.
func (j *Tracker) Doubt() (next string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.active.Load() {
		j.sleepLocked()
	}
	return j.tokenLocked(0)
}

// tokenLocked returns a token of the form cachebro:1:EPOCH:GENERATION:SECONDS, where SECONDS is
// the time since the epoch began.
func (j *Tracker) tokenLocked(gen uint64) string {
	return "cachebro:1:" + j.epoch + ":" + strconv.FormatUint(gen, 10) + ":" + strconv.FormatInt(int64(j.clock()/time.Second), 10)
}

func (j *Tracker) parseLocked(token string) (gen uint64, ok bool) {
	rest, ok := strings.CutPrefix(token, "cachebro:1:"+j.epoch+":")
	if !ok {
		return 0, false
	}
	number, age, ok := strings.Cut(rest, ":")
	if !ok {
		return 0, false
	}
	gen, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, false
	}
	at, err := strconv.ParseInt(age, 10, 64)
	if err != nil || at < 0 || at > int64(maxAge/time.Second)+int64(j.clock()/time.Second) {
		return 0, false
	}
	return gen, j.clock()-time.Duration(at)*time.Second <= maxAge
}
