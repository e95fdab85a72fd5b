// Package limits defines the sizes and ages that concern users: what is stored, for how long, and
// what is refused. doc/limits.md lists the limits and what happens above each. Limits that concern
// only one package, such as the length of a queue, are in that package.
package limits

import "time"

// Sizes of a single content, in bytes.
const (
	// Content is the largest file content that is stored, compared or searched. Versions of larger
	// files have no content.
	Content = 32 << 20
	// IgnoredContent is the same limit for files that git ignores.
	IgnoredContent = 8 << 20
	// GitAcross is the largest of git's own files that is copied to save it. A copy is necessary if
	// the state directory is on another file system, where hard links are impossible.
	GitAcross = 64 << 20
)

// Total sizes, in bytes.
const (
	// History is the size that the histories of all projects together should not exceed
	// (CACHEBRO_CAP). The history of watched commands outside projects may take the same size
	// again, so that it never displaces the histories of projects.
	History = 2 << 30
	// IgnoredHourly is the number of bytes of ignored files that are saved per hour.
	IgnoredHourly = 256 << 20
	// Git is the size of the saved files of a project's git directories. History does not include
	// it.
	Git = 1 << 30
	// Results is the disk space for cached results of memo and of searches.
	Results = 64 << 20
	// Spool is the number of bytes that may wait in the spool for the daemon. Above it, contents
	// are not copied into the spool, and a process that would destroy contents has to wait.
	Spool = 512 << 20
	// NetSpool is the same limit for files outside mounts that watched commands destroy. Commands
	// can destroy files faster than the daemon reads the spool, so as many bytes may wait in the
	// spool as may be stored.
	NetSpool = History
	// SpoolFree is the free space below which nothing is spooled.
	SpoolFree = 16 << 20
)

// Ages and numbers.
const (
	// KeepVersions is the number of versions of each file whose content is kept regardless of age
	// (CACHEBRO_KEEP).
	KeepVersions = 5
	// KeepAge is the age up to which the content of every version is kept (CACHEBRO_KEEP_AGE).
	KeepAge = 7 * 24 * time.Hour
	// OutsideFor is how long contents of files outside projects are kept.
	OutsideFor = 30 * 24 * time.Hour
	// LogVersions is the number of versions above which the log drops the oldest versions without
	// content.
	LogVersions = 500_000
	// GitFor is how long saved files and objects that git lost are kept.
	GitFor = 30 * 24 * time.Hour
	// GitFresh is how long lost git objects are kept even above the size limit Git, if the disk has
	// room.
	GitFresh = 24 * time.Hour
	// DaemonIdle is the idle time after which the daemon exits.
	DaemonIdle = 90 * time.Second
	// PastIdle is the idle time after which a mount of a past state is removed.
	PastIdle = 10 * time.Minute
)
