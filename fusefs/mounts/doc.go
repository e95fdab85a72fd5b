// Package mounts inspects a directory without cachebro's own state: the work tree
// that it belongs to, the mounts on it, on its parents and in its subtree, and the processes that
// use it. The commands that mount and unmount use the package, and the daemon uses it to see
// whether an overlay covers the project.
//
// It reads /proc and the file system and writes nothing. No function waits for a path under a
// mount that may be dead or hung, unless its comment says how long it waits at most. There are no
// locks and no state.
package mounts
