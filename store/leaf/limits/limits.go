// Package limits defines the sizes and ages that a user encounters: what is kept, for how long,
// and what is refused. doc/limits.md lists them and what happens beyond each. Limits that
// concern only one package (the length of a queue, the pause between two attempts) are defined
// there.
package limits

import "time"

// Sizes of one thing, in bytes.
const (
	// Content is the largest file content that is kept, compared or searched. Versions of
	// larger files have no content.
	Content = 32 << 20
	// IgnoredContent is the same limit for files that git ignores.
	IgnoredContent = 8 << 20
	// GitAcross is the largest file of git's own that is kept as a copy. Copies are needed if
	// the state directory is on another file system, where hard links cannot be made.
	GitAcross = 64 << 20
)

// Total sizes, in bytes.
const (
	// History is the size that the histories of all projects together should not exceed
	// (CACHEBRO_CAP). The history of watched commands outside of projects may take as much
	// again, so that a disaster there does not cost the projects their past.
	History = 2 << 30
	// IgnoredHourly is how many bytes of ignored files are kept per hour.
	IgnoredHourly = 256 << 20
	// Git is how much is kept of a project's git directories, in addition to History.
	Git = 1 << 30
	// Results is the disk space for cached answers of memo and of searches.
	Results = 64 << 20
	// Spool is how much may wait for the daemon. Beyond it contents stay in their files, and a
	// process that would destroy them has to wait.
	Spool = 512 << 20
	// NetSpool is the same limit for what watched commands destroy outside of mounts. A
	// disaster is faster than the daemon, so as much may wait as may be kept.
	NetSpool = History
	// SpoolFree is the free space below which nothing is spooled.
	SpoolFree = 16 << 20
)

// Ages and numbers.
const (
	// KeepVersions is how many versions of a file keep their content whatever their age
	// (CACHEBRO_KEEP).
	KeepVersions = 5
	// KeepAge is the age up to which every version keeps its content (CACHEBRO_KEEP_AGE).
	KeepAge = 7 * 24 * time.Hour
	// OutsideFor is how long contents from outside of projects are kept.
	OutsideFor = 30 * 24 * time.Hour
	// LogVersions is how many versions the log keeps. Beyond it, the oldest ones without
	// content are dropped.
	LogVersions = 500_000
	// GitFor is how long files and objects that git lost are kept.
	GitFor = 30 * 24 * time.Hour
	// GitFresh is how long lost git objects are kept beyond the size limit Git, while the disk
	// has room.
	GitFresh = 24 * time.Hour
	// DaemonIdle is the idle time after which the daemon ends.
	DaemonIdle = 90 * time.Second
	// PastIdle is the idle time after which a mount of the past is removed.
	PastIdle = 10 * time.Minute
)
