package capture

import (
	"log/slog"
	"os"
	"time"

	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
)

// Options of a Capture; all but Spool may be zero.
type Options struct {
	Spool  *spool.Writer
	Logger *slog.Logger
	// Matcher is told when a file with rules changes, and gives the class of names; nil:
	// everything is tracked.
	Matcher *ignore.Matcher
	// Root is the source directory. Files that the overlay cannot open any more (it has ended,
	// or forgot the inode) are looked up there by their last name. nil: they are gaps.
	Root *os.File
	// Git is the directory for files that the project's git directories lose; "": none
	// are kept. It should be on the file system of Root.
	Git string
	// Version is written to the mount record.
	Version    string
	Mountpoint string
	Source     string

	MaxFile    int64 // bytes above which a version has no content; 0: limits.Content
	MaxIgnored int64 // the same for ignored files; 0: limits.IgnoredContent
	// IgnoredHourly is how many bytes of ignored files are kept in an hour; 0: limits.IgnoredHourly.
	IgnoredHourly int64
	MaxSpool      int64 // bytes in the spool above which contents stay in their files and operations that destroy them wait; 0: limits.Spool
	MinFree       int64 // bytes free on the spool's file system below which nothing is kept; 0: limits.SpoolFree
	Workers       int   // 0: 2
	MaxQueue      int   // queued contents above which a close copies its content itself; 0: 4,096
	MaxHeld       int   // descriptors that keep the content of removed files alive; 0: 4,096
	// Stirred is called when there are new records in the spool: at once after a rest,
	// otherwise at most every readsEvery. nil: nobody is told. It must not wait.
	Stirred func()
	// Rested is called when nothing has happened for a while; nil: nobody is told.
	Rested func()
	// AtOnce puts content that is about to vanish into the spool before Before returns.
	// Otherwise a descriptor keeps it, which is lost when the process is killed.
	AtOnce bool
	// AllReads records reads of all processes, not only those of sessions.
	AllReads bool
}

// The longest waits that law 2 may cause, and other limits.
const (
	waitHealthy = 2 * time.Second
	waitFailed  = 100 * time.Millisecond

	nudgeAfter = 20 * time.Millisecond // until the workers are woken for small content that nobody has copied
	inlineSize = 64 << 10              // content up to this is copied by the operation that destroys it

	readsEvery = 500 * time.Millisecond
	readsMax   = 256 // files one process may read in readsEvery before it is a scanner

	// A worker looks again for room after retryFirst, then after twice as long
	// each time, but no later than retryLast.
	retryFirst = 250 * time.Millisecond
	retryLast  = 5 * time.Second
	// syncEvery bounds how much unsynced data a power loss can take.
	syncEvery = 5 * time.Second
	// restAfter is how long capture goes on looking around after the last record: by then
	// everything is durable, and what the store has read is released.
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
