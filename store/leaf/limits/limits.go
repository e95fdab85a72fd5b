// Package limits defines the sizes and ages that concern users: what is stored, for how long,
// and what is refused. doc/limits.md lists the limits and what happens beyond each. Limits
// that concern only one package (the length of a queue, the pause between two attempts) are
// defined in that package.
package limits

import "time"

// Sizes of one thing, in bytes.
const (
	// Content is the largest file content that is stored, compared or searched. Versions of
	// larger files have no content.
	Content = 32 << 20
	// IgnoredContent is the same limit for files that git ignores.
	IgnoredContent = 8 << 20
	// GitAcross is the largest of git's own files that is saved as a copy. Copies are needed
	// if the state directory is on another file system, where hard links cannot be made.
	GitAcross = 64 << 20
)

// Total sizes, in bytes.
const (
	// History is the size that the histories of all projects together should not exceed
	// (CACHEBRO_CAP). The history of watched commands outside of projects may take the same
	// size in addition, so that a disaster there does not push out the histories of projects.
	History = 2 << 30
	// IgnoredHourly is how many bytes of ignored files are saved per hour.
	IgnoredHourly = 256 << 20
	// Git is the size of the saved files of a project's git directories, in addition to
	// History.
	Git = 1 << 30
	// Results is the disk space for cached answers of memo and of searches.
	Results = 64 << 20
	// Spool is how many bytes may wait in the spool for the daemon. Beyond it contents are
	// not copied into the spool, and a process that would destroy them has to wait.
	Spool = 512 << 20
	// NetSpool is the same limit for files outside of mounts that watched commands destroy.
	// Commands can destroy files faster than the daemon ingests them, so as much may wait as
	// may be stored.
	NetSpool = History
	// SpoolFree is the free space below which nothing is spooled.
	SpoolFree = 16 << 20
)

// Ages and numbers.
const (
	// KeepVersions is how many versions of a file have their content retained regardless of
	// age (CACHEBRO_KEEP).
	KeepVersions = 5
	// KeepAge is the age up to which the content of every version is retained
	// (CACHEBRO_KEEP_AGE).
	KeepAge = 7 * 24 * time.Hour
	// OutsideFor is how long contents of files outside of projects are retained.
	OutsideFor = 30 * 24 * time.Hour
	// LogVersions is the number of versions beyond which the log drops the oldest ones
	// without content.
	LogVersions = 500_000
	// GitFor is how long saved files and objects that git lost are retained.
	GitFor = 30 * 24 * time.Hour
	// GitFresh is how long lost git objects are retained even beyond the size limit Git, as
	// long as the disk has room.
	GitFresh = 24 * time.Hour
	// DaemonIdle is the idle time after which the daemon exits.
	DaemonIdle = 90 * time.Second
	// PastIdle is the idle time after which a mount of the past is removed.
	PastIdle = 10 * time.Minute
)
