package capture

import (
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
	// Matcher returns the class of names. Capture notifies it when a file with ignore rules
	// changes. If it is nil, everything is tracked.
	Matcher *ignore.Matcher
	// Root is the source directory. Files that the overlay cannot open any more (it has ended,
	// or forgot the inode) are looked up there by their last name. If it is nil, their contents are
	// reported as gaps.
	Root *os.File
	// Git is the directory in which files that the project's git directories lose are saved. If it
	// is "", none are saved. It should be on the file system of Root.
	Git string
	// Version is written to the mount record.
	Version    string
	Mountpoint string
	Source     string

	MaxFile    int64 // bytes above which a version has no content; 0 means limits.Content
	MaxIgnored int64 // the same for ignored files; 0 means limits.IgnoredContent
	// IgnoredHourly is how many bytes of ignored files are saved in an hour. 0 means
	// limits.IgnoredHourly.
	IgnoredHourly int64
	MaxSpool      int64 // bytes in the spool above which contents stay in their files and operations that destroy them wait; 0 means limits.Spool
	MinFree       int64 // bytes free on the spool's file system below which nothing is recorded; 0 means limits.SpoolFree
	Workers       int   // how many workers copy contents; 0 means 2
	MaxQueue      int   // queued contents above which a close copies its content itself; 0 means 4,096
	MaxHeld       int   // the maximum number of descriptors that preserve the content of removed files; 0 means 4,096
	// Stirred, if not nil, is called when there are new records in the spool: at once after
	// Rested was called, otherwise at most every readsEvery. It must not block.
	Stirred func()
	// Rested, if not nil, is called when nothing has happened for a while.
	Rested func()
	// AtOnce writes content whose last name is about to be removed to the spool before Before
	// returns. Otherwise a descriptor preserves the content, which is lost if this process is
	// killed.
	AtOnce bool
	// AllReads records reads of all processes, not only those of sessions.
	AllReads bool
}

// The longest waits that law 2 may cause, and other limits.
const (
	waitHealthy = 2 * time.Second
	waitFailed  = 100 * time.Millisecond

	nudgeAfter = 20 * time.Millisecond // until the workers are woken for small content that no other goroutine has copied
	inlineSize = 64 << 10              // content up to this is copied by the operation that destroys it

	readsEvery = 500 * time.Millisecond
	readsMax   = 256 // files one process may read in readsEvery before it is a scanner

	// A worker checks again for room after retryFirst. Each further pause is twice as long as the
	// one before, up to retryLast.
	retryFirst = 250 * time.Millisecond
	retryLast  = 5 * time.Second
	// syncEvery is the interval of syncs. It bounds how much data a power loss can destroy.
	syncEvery = 5 * time.Second
	// restAfter is how long the regular work goes on after the last record. By then everything is
	// durable, and the records that the store has read are released.
	restAfter = 2*syncEvery + 2*readsEvery

	gapsKept = 1000
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, f := range []*func(){&o.Stirred, &o.Rested} {
		if *f == nil {
			*f = func() {}
		}
	}
	for _, f := range []struct {
		v *int64
		d int64
	}{{&o.MaxFile, limits.Content}, {&o.MaxIgnored, limits.IgnoredContent}, {&o.IgnoredHourly, limits.IgnoredHourly}, {&o.MaxSpool, limits.Spool}, {&o.MinFree, limits.SpoolFree}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	for _, f := range []struct {
		v *int
		d int
	}{{&o.Workers, 2}, {&o.MaxQueue, 4096}, {&o.MaxHeld, 4096}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	return o
}

// Stats describes the state of capture.
type Stats struct {
	State       string    // capturing, stopped
	Since       time.Time // of the state
	Reason      string
	Queue       int // contents not yet in the spool
	Held        int // descriptors that keep content alive
	Gaps        int64
	PendingGaps int64 // not yet in the log
	Spooled     int64 // bytes of content written since the mount
	MaxSpool    int64 // as in Options
}
