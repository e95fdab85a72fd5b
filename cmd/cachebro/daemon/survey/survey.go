// Package survey knows the present state of the project's tree. mountd attaches to it and
// reports changes; where nobody reports, it looks at the files themselves. What it finds
// changed becomes a version.
package survey

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/wire"
)

// Options are the options of Open. All are needed.
type Options struct {
	Root    string // of the project; absolute
	State   string // its state directory
	Store   *store.Store
	Source  *source.Source
	Ingest  *ingest.Ingester
	Log     *slog.Logger
	Changed func() // called when there are new versions or the baseline is complete; never blocks
	// Absent says that the files are on another machine, and this is a copy of its history.
	// The newest versions are all that is known of them.
	Absent bool
	Sends  func() bool // whether the history goes to a bucket
	// Unscanned says that nobody looks at all files, because there are too many.
	Unscanned bool
}

// Survey answers what is at a path now. Its methods may be called concurrently.
type Survey struct {
	Options

	mount    mount
	baseline *baseline
	verified *verifiedTable
	known    atomic.Int64 // ns; the log has everything that was there at this moment; 0 if at no moment
	away     atomic.Bool  // nothing has been mounted since known
	updating sync.Mutex   // held while what changed without a mount is looked for
}

// Open loads what the last daemon knew. Run must be called, or scans that are asked for are
// not carried out.
func Open(o Options) (*Survey, error) {
	s := &Survey{Options: o, verified: newVerifiedTable()}
	s.baseline = newBaseline(s)
	return s, s.load()
}

// Close forgets the mount.
func (s *Survey) Close() { s.mount.close() }

// Handlers answers mountd's requests.
func (s *Survey) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MAttach: s.attachMountd, wire.MHeartbeat: s.heartbeat, wire.MDetach: s.detach}
}
