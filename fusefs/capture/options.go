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
	// Matcher is told when a file with rules changes, and asked for the class
	// of parents; nil: everything is tracked.
	Matcher *ignore.Matcher
	// Root is the source directory. Files that the overlay cannot open any more
	// (it has ended, it forgot the inode) are looked for there by their last
	// name. nil: they are gaps.
	Root *os.File
	// Git is the directory for what the project's git directories lose; "": nothing of
	// them is kept. It should be on the file system of Root.
	Git string
	// Version is written to the mount record.
	Version    string
	Mountpoint string
	Source     string

	MaxFile    int64 // bytes above which a version has no content; 0: limits.Content
	MaxIgnored int64 // the same for ignored files; 0: limits.IgnoredContent
	// IgnoredHourly is how many bytes of ignored files are kept in an hour; 0: limits.IgnoredHourly.
	IgnoredHourly int64
	MaxSpool      int64 // bytes in the spool above which contents wait in their files, and their destroyers with them; 0: limits.Spool
	MinFree       int64 // bytes free on the spool's file system below which nothing is kept; 0: limits.SpoolFree
	Workers       int   // 0: 2
	MaxQueue      int   // queued contents above which a close copies by itself; 0: 4,096
	MaxHeld       int   // descriptors that keep vanishing content alive; 0: 4,096
	// Stirred is called, at once after a rest and else at most every readsEvery,
	// when there are new records in the spool; nil: nobody asks. It must not wait.
	Stirred func()
	// Rested is called when nothing has happened for a while; nil: nobody asks.
	Rested func()
	// AtOnce has content that is about to vanish in the spool before Before returns, where
	// else a descriptor would keep it: a descriptor ends with a process that is killed.
	AtOnce bool
	// AllReads records reads of all processes, not only those of sessions.
	AllReads bool
}

// The waits of law 2 and the limits of one look.
const (
	waitHealthy = 2 * time.Second
	waitFailed  = 100 * time.Millisecond

	nudgeAfter = 20 * time.Millisecond // until the workers look after small content that nobody took
	inlineSize = 64 << 10              // content up to this is copied by the operation that destroys it

	readsEvery = 500 * time.Millisecond
	readsMax   = 256 // files one process may read in readsEvery before it is a scanner

	// A worker looks again for room after retryFirst, then after twice as long
	// each time, but no later than retryLast.
	retryFirst = 250 * time.Millisecond
	retryLast  = 5 * time.Second
	// syncEvery bounds what a power loss takes of what nobody fsynced.
	syncEvery = 5 * time.Second
	// restAfter is how long capture looks around after the last record: everything
	// is durable by then, and what the store has read is let go.
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

// Stats is what capture knows of itself.
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
