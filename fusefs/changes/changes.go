// Package changes remembers which paths of a mount have changed, for programs that would
// otherwise look at every file: git asks what changed since it looked last. It stands beside
// observe → version → index → serve: it learns from the requests themselves, for tracked,
// ignored and excluded paths alike; the version log does not know excluded paths.
//
// It is kept in memory, and belongs to one server of one mount: the epoch in its tokens ends
// with that server, so a period without a server, or with another one, never looks like a period
// without changes. In doubt, the answer is that everything may have changed.
//
// # Generations
//
// A question begins a new generation. A path is noted once in each: a path that changes
// ten times between two questions costs one entry, and whoever knows that an inode was
// noted in the present generation need not look up its path. A token names the first
// generation that its holder has not heard of.
//
// The rule for writers: change first, then note, then answer the caller. If a question
// misses a change, its caller is still waiting, and the next question reports it.
//
// Nothing is noted until somebody asks, nor after too much has changed without a
// question: the tracker then sleeps and costs one atomic load.
//
// Tracker.mu guards all but active and gen; it is a leaf, memory only.
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
	// defaultLimit is a number of paths, about 2 MB. With so many, git takes about as
	// long as for a look at every file.
	defaultLimit = 16384
	// maxAge of a token. A change on the source that nothing reports (through another
	// name of the file outside the mount) must not be missed for ever; the kernel trusts
	// its own cache for as long.
	maxAge = time.Hour
)

// Tracker of one server.
type Tracker struct {
	active atomic.Bool   // changed under mu
	gen    atomic.Uint64 // the present generation, from 1; changed under mu

	mu      sync.Mutex
	epoch   string
	limit   int
	clock   func() time.Duration // since some fixed time, never backwards
	floor   uint64               // the oldest generation whose changes are all known
	entries []entry              // by generation
	index   map[string]int       // the index of a path in entries
}

// entry is a path, "" if a later entry replaced it.
type entry struct {
	path string
	gen  uint64
}

// New begins an epoch. At most limit paths are kept; 0: defaultLimit.
func New(limit int) *Tracker {
	if limit <= 0 {
		limit = defaultLimit
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	begun := time.Now()
	j := &Tracker{epoch: hex.EncodeToString(id[:]), limit: limit, clock: func() time.Duration { return time.Since(begun) }}
	j.gen.Store(1)
	return j
}

// Active reports whether anybody wants to know. A change that was made before Active
// returned false needs no note.
func (j *Tracker) Active() bool { return j.active.Load() }

// Gen returns the present generation, never 0.
func (j *Tracker) Gen() uint64 { return j.gen.Load() }

// Note says that path was changed, and returns the generation in which it was noted.
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

// Fresh reports whether path was noted since the last question.
func (j *Tracker) Fresh(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, known := j.index[path]
	return known && j.entries[i].gen == j.gen.Load()
}

// Everything says that any path may have changed.
func (j *Tracker) Everything() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sleepLocked()
}

// sleepLocked makes all tokens worthless until the next question.
func (j *Tracker) sleepLocked() {
	j.active.Store(false)
	j.floor = j.gen.Add(1)
	j.entries, j.index = nil, nil
}

// shrinkLocked forgets the older half, in whole generations, and the tokens that need it.
// If everything is of one generation, nobody has asked for long, and the tracker sleeps.
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

// keepLocked makes the given entries the only ones, without those that were replaced.
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

// Since returns the paths that were changed since a token was given, in no order, and the
// token for the next question. all: everything may have changed.
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

// Doubt returns a token that is never valid, for a server that cannot know what changed.
func (j *Tracker) Doubt() (next string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.active.Load() {
		j.sleepLocked()
	}
	return j.tokenLocked(0)
}

// tokenLocked returns "cachebro:1:" epoch ":" generation ":" seconds of this epoch.
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
