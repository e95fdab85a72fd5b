package capture

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
)

// Options configures a Capture. All fields except Spool may be zero.
type Options struct {
	Spool  *spool.Writer
	Logger *slog.Logger
	// Matcher returns the class of names, and is notified when a file with ignore rules changes. If
	// nil, everything is tracked.
	Matcher *ignore.Matcher
	// Root is the source directory. Files that the overlay can no longer open are looked up there
	// by their last name. If Root is nil, their contents are reported as gaps.
	Root *os.File
	// Git is the directory in which files lost by the project's git directories are saved. If "",
	// they are not saved. It should be on the file system of Root.
	Git string
	// Version is written to the mount record.
	Version    string
	Mountpoint string
	Source     string

	MaxFile int64 // bytes above which a version is recorded without content; 0 means limits.Content
	// IgnoredHourly is how many bytes of ignored files are saved in an hour. 0 means
	// limits.IgnoredHourly.
	IgnoredHourly int64
	MaxSpool      int64 // size of the spool in bytes above which destroying operations wait; 0 means limits.Spool
	MinFree       int64 // free bytes on the spool's file system below which nothing is recorded; 0 means limits.SpoolFree
	Workers       int   // number of workers that copy contents; 0 means 2
	MaxQueue      int   // queued contents above which a close copies its content itself; 0 means 4,096
	// OnRecord, if not nil, is called when the spool has new records: at once for the first one
	// after OnIdle was called, and after that at most every readsEvery. It must not block.
	OnRecord func()
	// OnIdle, if not nil, is called when nothing was recorded for restAfter.
	OnIdle func()
	// AtOnce writes content to the spool before the last name of its file is removed. Otherwise
	// only a descriptor preserves the content, which is lost if this process is killed.
	AtOnce bool
}

// How long an operation may wait for content to be saved, and other limits.
const (
	waitHealthy = 2 * time.Second
	waitFailed  = 100 * time.Millisecond

	nudgeAfter = 20 * time.Millisecond // pause before workers are woken for small content
	inlineSize = 64 << 10              // content up to this size is copied by the operation that destroys it

	readsEvery = 500 * time.Millisecond
	readsMax   = 256 // a process that reads this many files in readsEvery counts as a scanner

	// A worker checks again for room after retryFirst, then after pauses that double up to
	// retryLast.
	retryFirst = 250 * time.Millisecond
	retryLast  = 5 * time.Second
	// syncEvery bounds how much data a power loss can destroy.
	syncEvery = 5 * time.Second
	// restAfter is how long periodic work continues after the last record. By then everything is
	// durable, and the records that the store has read are released.
	restAfter = 2*syncEvery + 2*readsEvery

	gapsKept = 1000
	maxHeld  = 4096 // descriptors that preserve contents of removed files
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, f := range []*func(){&o.OnRecord, &o.OnIdle} {
		if *f == nil {
			*f = func() {}
		}
	}
	o.MaxFile = cmp.Or(o.MaxFile, limits.Content)
	o.IgnoredHourly = cmp.Or(o.IgnoredHourly, limits.IgnoredHourly)
	o.MaxSpool = cmp.Or(o.MaxSpool, limits.Spool)
	o.MinFree = cmp.Or(o.MinFree, limits.SpoolFree)
	o.Workers = cmp.Or(o.Workers, 2)
	o.MaxQueue = cmp.Or(o.MaxQueue, 4096)
	return o
}

// Stats describes the state of capture.
type Stats struct {
	State       string    // capturing or stopped
	Since       time.Time // when the state began
	Reason      string
	Queue       int // contents not yet in the spool
	Held        int // descriptors that preserve content
	Gaps        int64
	PendingGaps int64 // not yet in the log
	Spooled     int64 // bytes of content since the mount
	MaxSpool    int64 // as in Options
}
