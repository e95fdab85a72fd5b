// Package limits is the one place for the sizes and ages that a user meets: what is
// kept, for how long, and what is refused. doc/limits.md lists them with what happens
// beyond each. Limits that only one package knows of (a queue's length, a pause between
// two tries) stand there.
package limits

import "time"

// Sizes of one thing, in bytes.
const (
	// Content is the largest content of a file that is kept, compared or searched. Of a
	// larger one a version has no content.
	Content = 32 << 20
	// IgnoredContent is the same for files that git ignores.
	IgnoredContent = 8 << 20
	// GitAcross is the largest file of git's own that is kept as a copy, where the state
	// directory is on another file system and no hard link can be made.
	GitAcross = 64 << 20
)

// Sizes of all of it, in bytes.
const (
	// History is what the histories of all projects together should not pass
	// (CACHEBRO_CAP). What watched commands did outside of projects may take as much again:
	// a disaster there must not cost the projects their past.
	History = 2 << 30
	// IgnoredHourly is how much of ignored files is kept in an hour.
	IgnoredHourly = 256 << 20
	// Git is what is kept of a project's git directories, beside History.
	Git = 1 << 30
	// Results is what the answers of memo and of searches may take on disk.
	Results = 64 << 20
	// Spool is how much may wait for the daemon; beyond it contents wait in their
	// files, and whoever destroys them waits too.
	Spool = 512 << 20
	// NetSpool is the same for what watched commands destroy where no mount is: a disaster
	// is quicker than the daemon, and what waits is as large as what may be kept.
	NetSpool = History
	// SpoolFree is the free space below which nothing is spooled.
	SpoolFree = 16 << 20
)

// Ages and numbers.
const (
	// KeepVersions is how many versions of a file keep their content whatever their
	// age (CACHEBRO_KEEP).
	KeepVersions = 5
	// KeepAge is the age below which each version keeps its content (CACHEBRO_KEEP_AGE).
	KeepAge = 7 * 24 * time.Hour
	// OutsideFor is for how long a content of outside of projects is kept.
	OutsideFor = 30 * 24 * time.Hour
	// LogVersions is how many versions the log keeps; above it the oldest without
	// content go.
	LogVersions = 500_000
	// GitFor is for how long what git lost is kept.
	GitFor = 30 * 24 * time.Hour
	// GitFresh is for how long objects that git lost are kept beyond Git, while the disk
	// has room.
	GitFresh = 24 * time.Hour
	// DaemonIdle is the quiet after which the daemon ends.
	DaemonIdle = 90 * time.Second
	// PastIdle is the quiet after which a mount of the past goes.
	PastIdle = 10 * time.Minute
)
