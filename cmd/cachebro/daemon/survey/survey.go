// Package survey knows the project's tree as it is: it takes mountd in, which tells of
// changes, and looks at the files themselves where nobody has told of them. What it finds
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

// Options of Open. All are needed.
type Options struct {
	Root    string // of the project; absolute
	State   string // its state directory
	Store   *store.Store
	Source  *source.Source
	Ingest  *ingest.Ingester
	Log     *slog.Logger
	Changed func() // there are new versions, or the baseline is complete; never blocks
	// Absent: the files are on another machine, of whose history this is a copy. The
	// newest versions are all that is known of them.
	Absent bool
	// Unscanned: nobody looks at all files, there are too many.
	Unscanned bool
}

// Survey answers what is at a path now. Its methods may be called concurrently.
type Survey struct {
	Options

	mount    mount
	baseline *baseline
	verified *verifiedTable
	known    atomic.Int64 // ns: the log has all that there was then; 0: of no moment
	away     atomic.Bool  // nothing has been mounted since
	updating sync.Mutex   // held while what changed without a mount is looked for
}

// Open takes up what the last daemon knew. Run must be called for the looks at every
// file that are asked for.
func Open(o Options) (*Survey, error) {
	s := &Survey{Options: o, verified: newVerifiedTable()}
	s.baseline = newBaseline(s)
	return s, s.load()
}

// Close lets go of the mount.
func (s *Survey) Close() { s.mount.close() }

// Handlers answers mountd's requests.
func (s *Survey) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MAttach: s.attachMountd, wire.MHeartbeat: s.heartbeat, wire.MDetach: s.detach}
}
