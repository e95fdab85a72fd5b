// Package survey determines the present state of the project's tree. mountd attaches to the package
// and reports changes. While changes are not reported, the package checks the files themselves.
// Each change that it finds becomes a version.
package survey

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Options configure Open. All are required.
type Options struct {
	Root    string // of the project; absolute
	State   string // its state directory
	Store   *store.Store
	Source  *source.Source
	Ingest  *ingest.Ingester
	Log     *slog.Logger
	Changed func() // called when there are new versions or the baseline is complete; never blocks
	// Absent says that this is a copy of another machine's history, whose files are on that
	// machine. Only the newest versions of the files are known.
	Absent bool
	Sends  func() bool // whether the history is sent to a bucket
	// Unscanned says that the tree has too many files to scan.
	Unscanned bool
}

// Survey determines the present state of paths. Its methods may be called concurrently.
type Survey struct {
	Options

	mount
	*baseline
	verified       *cache.Cache[store.Path, verifiedStat]
	lastComplete   atomic.Int64 // ns; the last moment at which the log was complete; 0 if there was none
	unmountedSince atomic.Bool  // nothing has been mounted since lastComplete
	outdated       atomic.Bool  // the log had versions before the present mount, and no scan has completed since
	updating       sync.Mutex   // held while changes made without a mount are searched for
}

// Open loads what the last daemon stored. Run must be called, or requested scans are not
// carried out.
func Open(o Options) (*Survey, error) {
	s := &Survey{Options: o, verified: cache.New[store.Path, verifiedStat](maxVerified, nil)}
	s.baseline = &baseline{survey: s, wake: make(chan struct{}, 1)}
	return s, s.load()
}

// Close drops the mount.
func (s *Survey) Close() { s.mount.close() }

// Handlers returns the handlers of mountd's requests, by method.
func (s *Survey) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MAttach: s.attachMountd, wire.MHeartbeat: onwire.WithRequest(s.heartbeat), wire.MDetach: onwire.WithRequest(s.detach)}
}
