package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/daemon/waits"
	"cachebro/store/memo/results"
	"cachebro/store/wire"

	"github.com/fxamacker/cbor/v2"
)

// Kept answers: of exact searches, which depend on the tracked files alone, and
// what clients hand over (memo).

// keeper is the cache with what status tells of its stores.
type keeper struct {
	cache *results.Cache
	kept  *results.Kept
	redis *results.Redis
	bad   string // what is wrong with the settings
}

// openResults never fails the daemon: without a store there are fewer hits.
func (d *Daemon) openResults() {
	s := d.o.Results
	if s.Tools == nil {
		s.Tools = results.DefaultTools()
	}
	if s.Off {
		s.Tools = map[string]bool{}
	}
	d.tree = &treeState{store: d.store}
	stores := []results.Store{results.NewMemory(0, 0)}
	var err error
	if d.results.kept, err = results.NewKept(d.store.KV("results"), s.Budget); err == nil {
		stores = append(stores, d.results.kept)
	} else {
		d.log.Warn("results", "err", err)
	}
	if s.Redis != "" && !s.Off {
		if d.results.redis, err = results.NewRedis(s.Redis); err == nil {
			stores = append(stores, d.results.redis)
		} else {
			d.results.bad = err.Error()
			d.log.Warn("results", "err", err)
		}
	}
	d.results.cache = results.New(results.Options{Stores: stores, TTL: s.TTL, Tools: s.Tools, Log: d.log})
}

func (k *keeper) close() {
	if k.redis != nil {
		_ = k.redis.Close()
	}
}

// treeToken says what the tracked files at a path are; false when that cannot be
// told: nothing mounted that would tell of changes, somebody may write
// underneath, the spool is not caught up with, or a file is being written.
func (d *Daemon) treeToken(ctx context.Context, p store.Path) (token string, seq uint64, ok bool) {
	mounted, attach, _ := d.survey.MountState()
	if !mounted || attach.Outside || !d.ingest.WaitHead(ctx, waits.Fresh) || d.ingest.WritingBelow(p) {
		return "", 0, false
	}
	sum, seq, err := d.tree.at(p)
	if err != nil {
		d.log.Warn("results", "err", err)
		return "", 0, false
	}
	return sum.String(), seq, true
}

// mostKept bounds the lines of an answer that is kept.
const mostKept = 5000

// grepAnswer is search.Result as it is stored. Paths and lines are bytes.
type grepAnswer struct {
	Lines []grepLine `cbor:"1,keyasint,omitempty"`
	Files int        `cbor:"2,keyasint,omitempty"`
	Cut   bool       `cbor:"3,keyasint,omitempty"`
	Read  int        `cbor:"4,keyasint,omitempty"`
	All   bool       `cbor:"5,keyasint,omitempty"`
	Total int        `cbor:"6,keyasint,omitempty"`
}

type grepLine struct {
	_    struct{} `cbor:",toarray"`
	Path []byte
	No   int
	Text []byte
}

// grep is index.Grep with its answers kept. The files' state is a part of the
// key: a state that comes back finds its answers, on other machines too.
func (d *Daemon) grep(ctx context.Context, q search.Query) (search.Result, error) {
	scope := store.Path(q.Path)
	token, seq, ok := d.treeToken(ctx, scope)
	if !ok || !utf8.ValidString(q.Path+q.Pattern+strings.Join(q.Include, "")+strings.Join(q.Exclude, "")) { // JSON would make one of several
		return d.index.Grep(ctx, q)
	}
	var fresh *search.Result
	raw, _, err := d.results.cache.Do(ctx, results.Call{
		Tool: "search", Args: []any{"grep/1", q, token},
		Holds: func(ctx context.Context, uses []results.Used) bool {
			if len(uses) != 1 || uses[0].Version != token {
				return false
			}
			now, _, ok := d.treeToken(ctx, scope)
			return ok && now == token
		},
		Compute: func(ctx context.Context) (results.Answer, error) {
			r, err := d.index.Grep(ctx, q)
			if err != nil {
				return results.Answer{}, err
			}
			fresh = &r
			// Nothing may have happened meanwhile, not even there and back.
			_, after, still := d.treeToken(ctx, scope)
			if !still || after != seq || r.Warning != "" || len(r.Lines) > mostKept {
				return results.Answer{Once: true}, nil
			}
			raw, err := encodeGrep(r)
			return results.Answer{Value: raw, Uses: []results.Used{{Path: string(scope), Version: token}}}, err
		},
	})
	if fresh != nil || err != nil {
		if fresh == nil {
			return search.Result{}, err
		}
		return *fresh, err
	}
	r, err := decodeGrep(raw)
	if err != nil { // what another machine stored is not ours to trust
		d.log.Warn("results: an answer cannot be read", "err", err)
		return d.index.Grep(ctx, q)
	}
	return r, nil
}

func encodeGrep(r search.Result) ([]byte, error) {
	a := grepAnswer{Lines: make([]grepLine, len(r.Lines)), Files: r.Files, Cut: r.Truncated, Read: r.Candidates, All: r.Scanned, Total: r.Total}
	for i, l := range r.Lines {
		a.Lines[i] = grepLine{Path: []byte(l.Path), No: l.No, Text: l.Text}
	}
	return cbor.Marshal(a)
}

func decodeGrep(raw []byte) (search.Result, error) {
	var a grepAnswer
	if err := cbor.Unmarshal(raw, &a); err != nil {
		return search.Result{}, err
	}
	r := search.Result{Files: a.Files, Truncated: a.Cut, Candidates: a.Read, Scanned: a.All, Total: a.Total}
	if len(a.Lines) > 0 {
		r.Lines = make([]search.Line, len(a.Lines))
	}
	for i, l := range a.Lines {
		r.Lines[i] = search.Line{Path: store.Path(l.Path), No: l.No, Text: l.Text}
	}
	return r, nil
}

// resultsRequest keeps and gives what clients made.
func (d *Daemon) resultsRequest(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.ResultsRequest
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	call := results.Call{Tool: q.Tool, Args: q.Args, TTL: time.Duration(q.TTLSeconds) * time.Second}
	switch q.Do {
	case "get":
		e, ok := d.results.cache.Get(ctx, call)
		return wire.ResultsAnswer{Found: ok, At: e.At}, e.Value, nil
	case "put":
		return wire.ResultsAnswer{}, nil, d.results.cache.Put(ctx, call, results.Answer{Value: r.Body})
	case "clear":
		return wire.ResultsAnswer{}, nil, errors.Join(d.results.cache.Clear(ctx), d.bundles.cache.Clear(ctx))
	}
	return nil, nil, wire.Errorf(wire.ErrBadRequest, "get, put, clear", "unknown request %q", q.Do)
}

// resultsStatus is what status tells.
func (d *Daemon) resultsStatus(ctx context.Context) *wire.ResultsState {
	st := &wire.ResultsState{Stats: json.RawMessage("{}")}
	s := d.results.cache.Stats()
	maps.Copy(s.Tools, d.bundles.cache.Stats().Tools)
	if raw, err := json.Marshal(s); err == nil {
		st.Stats = raw
	}
	var parts []string
	for _, tool := range slices.Sorted(maps.Keys(s.Tools)) {
		if n := s.Tools[tool]; n.Hits+n.Joined+n.Misses > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d kept", tool, n.Hits+n.Joined, n.Hits+n.Joined+n.Misses))
		}
	}
	if d.o.Results.Off {
		parts = append(parts, "off")
	}
	if k := d.results.kept; k != nil {
		n, err := k.Len(ctx)
		if err == nil {
			parts = append(parts, fmt.Sprintf("%d on disk, %.1f MB", n, float64(k.Bytes())/1e6))
		}
	}
	switch r := d.results.redis; {
	case r != nil:
		if since, why := r.Down(); !since.IsZero() {
			st.Down = fmt.Sprintf("redis at %s does not answer since %s, local only: %v", r.Host(), since.Format("15:04:05"), why)
			parts = append(parts, st.Down)
		} else {
			parts = append(parts, "shared through redis at "+r.Host())
		}
	case d.results.bad != "":
		st.Down = "redis: " + d.results.bad
		parts = append(parts, st.Down)
	}
	st.Text = strings.Join(parts, ", ")
	return st
}
