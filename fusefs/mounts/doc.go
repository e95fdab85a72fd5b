// Package mounts inspects a directory without cachebro's own state: the work tree
// that it belongs to, the mounts on, above and below it, and the processes that use
// it. The commands that mount and unmount build on it, and the daemon asks it
// whether an overlay covers the project.
//
// It reads /proc and the file system and writes nothing. No function blocks on a path under a
// mount that may be dead or hung, unless it says how long. There are no locks and no state.
package mounts
