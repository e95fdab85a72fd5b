package daemon

import (
	"context"
	"path/filepath"
	"time"

	"cachebro/store/daemon/waits"
	"cachebro/store/space"
)

// The cap is the user's: it bounds the stores of all projects in the state
// directory together. There is no process above the daemons, so each looks at
// what the others take (an lstat per file, once a minute), comes to the same
// shares (space.Allot), and keeps to its own. A project without a daemon is
// tidied by one that is started for it, since nobody else may open its store.

// Peer is one of the user's projects.
type Peer struct {
	State string // its state directory
	space.Holding
	Allowed int64 // bytes that its store may take at present
}

// Peers lists the projects whose state directories lie in base. limit is the cap
// that they share.
func Peers(base string, limit int64, now time.Time) []Peer {
	states, _ := filepath.Glob(filepath.Join(base, "*-????????????????")) // the pattern is well-formed
	var all []Peer
	var hs []space.Holding
	for _, state := range states {
		h := space.Measure(filepath.Join(state, "store"))
		if h.Used > 0 {
			all, hs = append(all, Peer{State: state, Holding: h}), append(hs, h)
		}
	}
	for i, n := range space.Allot(limit, hs, now) {
		all[i].Allowed = n
	}
	return all
}

// allowed is what our own store may take at present.
func (d *Daemon) allowed(int64) int64 {
	limit := d.store.Cap()
	for _, p := range Peers(filepath.Dir(d.state), limit, time.Now()) {
		if p.State == d.state {
			return p.Allowed
		}
	}
	return limit
}

const (
	// tidyPause is the time between two requests to the same project; longer
	// where the last one did not help: what files hold now is never dropped.
	tidyPause  = 10 * time.Minute
	tidyBeyond = 24 * time.Hour
)

// asked is when another project was asked to tidy up, and what it took then.
type asked struct {
	at   time.Time
	used int64
}

// keepPeers looks after the projects that have no daemon.
func (d *Daemon) keepPeers(ctx context.Context) {
	for d.o.Tidy != nil && waits.Sleep(ctx, collectEvery) {
		d.tidyPeers(ctx)
	}
}

// tidyPeers has the project that is most above its share keep to it; one at a
// time, so that not all daemons run at once.
func (d *Daemon) tidyPeers(ctx context.Context) {
	if d.o.Tidy == nil || !d.tidying.CompareAndSwap(false, true) {
		return
	}
	defer d.tidying.Store(false)
	now := time.Now()
	var worst Peer
	for _, p := range Peers(filepath.Dir(d.state), d.store.Cap(), now) {
		last, before := d.asked[p.State]
		pause := tidyPause
		if p.Used >= last.used {
			pause = tidyBeyond
		}
		switch {
		case p.State == d.state, p.Used <= p.Allowed, before && now.Sub(last.at) < pause:
		case p.Used-p.Allowed > worst.Used-worst.Allowed:
			worst = p
		}
	}
	if worst.State == "" {
		return
	}
	if d.asked == nil {
		d.asked = map[string]asked{}
	}
	d.asked[worst.State] = asked{now, worst.Used}
	if err := d.o.Tidy(ctx, worst.State); err != nil && ctx.Err() == nil {
		d.log.Warn("another project keeps more than its share", "state", worst.State, "bytes", worst.Used, "share", worst.Allowed, "err", err)
	}
}
