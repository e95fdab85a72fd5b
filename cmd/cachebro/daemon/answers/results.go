// Package answers caches answers. The answers of exact searches and of "cachebro memo" depend only
// on their keys, so other projects and machines may share them. All other answers are valid only in
// this project. The package also computes a digest of the tracked files.
package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/memo/results"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (an *Answers) open(s results.Settings) {
	if s.Off {
		s.Tools = map[string]bool{}
	}
	stores := []results.Store{results.NewMemory(0)}
	var err error
	an.disk, err = results.NewDisk(an.store.KV("results"), s.Budget)
	if err == nil {
		stores = append(stores, an.disk)
	} else {
		an.log.Warn("open the stored results", "err", err)
	}
	if s.Redis != "" && !s.Off {
		an.redis, err = results.NewRedis(s.Redis)
		if err == nil {
			stores = append(stores, an.redis)
		} else {
			an.bad = err.Error()
			an.log.Warn("connect to Redis", "err", err)
		}
	}
	if an.redis != nil {
		an.shared = results.New(results.Options{Stores: []results.Store{an.redis}, TTL: s.TTL, Tools: s.Tools, Log: an.log})
	}
	an.Anywhere = results.New(results.Options{Stores: stores, TTL: s.TTL, Tools: s.Tools, Log: an.log})
	// A bundle (see package bundle) is valid until something that it was made from changes. It
	// contains version numbers of this project, so it is not shared.
	here := []results.Store{results.NewMemory(0)}
	if an.disk != nil {
		here = append(here, an.disk)
	}
	an.Here = results.New(results.Options{Stores: here, TTL: localTTL, Tools: s.Tools, Log: an.log})
}

// Close disconnects from Redis.
func (an *Answers) Close() {
	if an.redis != nil {
		_ = an.redis.Close()
	}
}

// Token returns a digest of the tracked files at a path. ok is false if the digest cannot be
// trusted: nothing is mounted, somebody may write to the covered directory, the spool has not been
// read to its end, or a file is being written.
func (an *Answers) Token(ctx context.Context, p store.Path) (token string, seq uint64, ok bool) {
	mounted, attach, _ := an.survey.MountState()
	if !mounted || attach.Outside || !an.ingest.WaitHead(ctx, ingest.FreshWait) || an.ingest.WritingBelow(p) {
		return "", 0, false
	}
	sum, seq, err := an.digests.digestOf(p)
	if err != nil {
		an.log.Warn("compute the digest of the tracked files", "err", err)
		return "", 0, false
	}
	return sum.String(), seq, true
}

// Secrets returns the tracked files for which the filter returns true, and which no search shows,
// because their names suggest that they hold credentials.
func (an *Answers) Secrets(which func(store.Path) bool) []store.Path {
	paths, err := an.digests.secretFiles(which)
	if err != nil {
		an.log.Warn("list the files that are not searched", "err", err)
	}
	return paths
}

// request stores and returns answers that clients computed.
func (an *Answers) request(ctx context.Context, r *wire.Request, q wire.ResultsRequest) (any, []byte, error) {
	call := results.Call{Tool: q.Tool, Args: q.Args, TTL: time.Duration(q.TTLSeconds) * time.Second}
	cache := an.Here
	if q.Shared {
		var err error
		cache = an.shared
		call.Args, err = an.withTreeDigest(ctx, q.Args)
		if cache == nil || err != nil {
			return wire.ResultsAnswer{}, nil, err
		}
	}
	switch q.Do {
	case "get":
		e, ok := cache.Get(ctx, call)
		return wire.ResultsAnswer{Found: ok}, e.Value, nil
	case "put":
		return wire.ResultsAnswer{}, nil, cache.Put(ctx, call, results.Answer{Value: r.Body})
	case "clear":
		return wire.ResultsAnswer{}, nil, errors.Join(an.Anywhere.Clear(ctx), an.Here.Clear(ctx))
	}
	return nil, nil, wire.Errorf(wire.ErrBadRequest, "get, put, clear", "unknown request %q", q.Do)
}

// withTreeDigest adds a digest of the tracked files to a call's arguments, so that machines with
// different files do not overwrite each other's answers. The digest may be out of date and does not
// cover ignored files, so it does not prove that an answer is valid. The client decides that.
func (an *Answers) withTreeDigest(ctx context.Context, args json.RawMessage) (any, error) {
	if an.shared == nil {
		return nil, nil
	}
	an.ingest.WaitHead(ctx, ingest.FreshWait)
	sum, _, err := an.digests.digestOf("")
	return []any{args, sum.String()}, err
}

// Clear drops all answers. It returns descriptions of the caches that it could not clear.
func (an *Answers) Clear(ctx context.Context) (unreached []string) {
	if err := an.Anywhere.Clear(ctx); err != nil {
		where := "cached answers"
		if an.redis != nil {
			where += ", here or on " + an.redis.Host()
		}
		unreached = append(unreached, fmt.Sprintf("%s: %v", where, err))
	}
	if err := an.Here.Clear(ctx); err != nil {
		unreached = append(unreached, fmt.Sprintf("cached bundles: %v", err))
	}
	return unreached
}

// localTTL is the longest time for which Here keeps an answer.
const localTTL = 90 * 24 * time.Hour

// Status describes the cache for cachebro status.
func (an *Answers) Status() *wire.ResultsState {
	st := &wire.ResultsState{Stats: json.RawMessage("{}")}
	s := an.Anywhere.Stats()
	maps.Copy(s.Tools, an.Here.Stats().Tools)
	if raw, err := json.Marshal(s); err == nil {
		st.Stats = raw
	}
	var parts []string
	for _, tool := range slices.Sorted(maps.Keys(s.Tools)) {
		if n := s.Tools[tool]; n.Hits+n.Joined+n.Misses > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d cached", tool, n.Hits+n.Joined, n.Hits+n.Joined+n.Misses))
		}
	}
	if an.off {
		parts = append(parts, "off")
	}
	if k := an.disk; k != nil {
		n, err := k.Len()
		if err == nil {
			parts = append(parts, fmt.Sprintf("%d on disk, %.1f MB", n, float64(k.Bytes())/1e6))
		}
	}
	switch r := an.redis; {
	case r != nil:
		if since, why := r.Down(); !since.IsZero() {
			st.Down = fmt.Sprintf("redis at %s has not answered since %s, so only the local cache is used: %v", r.Host(), since.Format("15:04:05"), why)
			parts = append(parts, st.Down)
		} else {
			parts = append(parts, "shared through redis at "+r.Host())
		}
	case an.bad != "":
		st.Down = "redis: " + an.bad
		parts = append(parts, st.Down)
	}
	st.Text = strings.Join(parts, ", ")
	return st
}

// Answers is the cache. The methods may be called concurrently.
type Answers struct {
	store  *store.Store
	ingest *ingest.Ingester
	survey *survey.Survey
	log    *slog.Logger
	off    bool // nothing is cached

	// Anywhere is for calls whose keys contain everything that the answer depends on, so that other
	// projects and machines may use the answers. It is in memory, on disk and in Redis.
	Anywhere *results.Cache
	// Here is for calls whose keys are valid for this project only. It is in memory and on disk.
	Here   *results.Cache
	shared *results.Cache // Redis; nil if there is none
	disk   *results.Disk  // nil if it could not be opened
	redis  *results.Redis // nil if it is not configured or unusable
	bad    string         // what is wrong with the settings

	digests *digests
}

// Open opens the cache. It never fails. If the disk or Redis cannot be used, fewer answers are
// found in the cache.
func Open(s results.Settings, st *store.Store, in *ingest.Ingester, sv *survey.Survey, log *slog.Logger) *Answers {
	an := &Answers{store: st, ingest: in, survey: sv, log: log, off: s.Off, digests: &digests{store: st}}
	an.open(s)
	return an
}

// Handlers returns the handlers of the requests about cached answers, by method.
func (an *Answers) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MResults: onwire.WithRequest(an.request)}
}
