package tidy

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/text"
	"cachebro/store/space"
	"cachebro/store/wire"
)

// The cap is per user, and bounds the stores of all projects in the state directory together. No
// process coordinates the daemons. Each measures the size of the other stores (an lstat per file,
// once a minute), computes the same shares (space.Allot), and enforces its own share. Only a daemon
// may open its store, so one is started to tidy a project without a daemon. The user's own history,
// which records changes outside projects, has a separate cap of the same size.

// Peer is one of the user's projects.
type Peer struct {
	State string // its state directory
	space.StoreSize
	Allowed int64 // bytes that its store may take at present
}

// Peers lists the projects whose state directories are in base. limit is the cap that they share.
func Peers(base string, limit int64, now time.Time) []Peer {
	states, _ := filepath.Glob(filepath.Join(base, "*-????????????????")) // the pattern is well-formed
	var all, outside []Peer
	var hs []space.StoreSize
	for _, state := range states {
		h := space.Measure(filepath.Join(state, "store"))
		switch {
		case h.Used == 0:
		case state == outsideIn(base):
			own := Peer{State: state, StoreSize: h, Allowed: limit}
			if now.Sub(h.Wrote) > limits.OutsideFor { // all of its records are too old
				own.Allowed = 0
			}
			outside = []Peer{own}
		default:
			all, hs = append(all, Peer{State: state, StoreSize: h}), append(hs, h)
		}
	}
	for i, n := range space.Allot(limit, hs, now) {
		all[i].Allowed = n
	}
	return append(all, outside...)
}

// outsideIn returns the state directory, in base, of the user's own history.
func outsideIn(base string) string {
	state, err := wire.Paths{Override: base}.State(wire.OutsideRoot)
	if err != nil {
		return ""
	}
	return state
}

// OutsideLimits describes what the user's own history stores with a cap of limit.
func OutsideLimits(limit int64) string {
	return fmt.Sprintf("up to %s, of files up to %d MiB, for %d days", text.Bytes(limit), limits.Content>>20, limits.OutsideFor/(24*time.Hour))
}

// Allowed returns the size that the store of a state directory may have at present, if all
// stores share limit.
func Allowed(state string, limit int64) int64 {
	for _, p := range Peers(filepath.Dir(state), limit, time.Now()) {
		if p.State == state {
			return p.Allowed
		}
	}
	return limit
}

const (
	// tidyPause is the time between two requests to the same project. tidyBeyond is the time after
	// a request that did not help. A request may not help, because present contents of files are
	// never dropped.
	tidyPause  = 10 * time.Minute
	tidyBeyond = 24 * time.Hour
)

// tidyRequest is the last request to tidy another project, with the size of its store at that time.
type tidyRequest struct {
	at   time.Time
	used int64
}

// Run tidies the projects that have no daemon, until ctx ends.
func (td *Tidy) Run(ctx context.Context) {
	for td.Tidy != nil && loop.Pause(ctx, collectEvery) {
		td.tidyPeers(ctx)
	}
}

// tidyPeers asks the project that exceeds its share the most to reduce itself to that share. It
// asks one project at a time, so that not all daemons run at once.
func (td *Tidy) tidyPeers(ctx context.Context) {
	if td.Tidy == nil || !td.tidying.CompareAndSwap(false, true) {
		return
	}
	defer td.tidying.Store(false)
	now := time.Now()
	var worst Peer
	for _, p := range Peers(filepath.Dir(td.State), td.Store.Options().Cap, now) {
		last, before := td.asked[p.State]
		pause := tidyPause
		if p.Used >= last.used {
			pause = tidyBeyond
		}
		switch {
		case p.State == td.State, p.Used <= p.Allowed, before && now.Sub(last.at) < pause:
		case p.Used-p.Allowed > worst.Used-worst.Allowed:
			worst = p
		}
	}
	if worst.State == "" {
		return
	}
	if td.asked == nil {
		td.asked = map[string]tidyRequest{}
	}
	td.asked[worst.State] = tidyRequest{now, worst.Used}
	if err := td.Tidy(ctx, worst.State); err != nil && ctx.Err() == nil {
		td.Log.Warn("another project takes more than its share", "state", worst.State, "bytes", worst.Used, "share", worst.Allowed, "err", err)
	}
}
