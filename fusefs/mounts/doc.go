// Package mounts inspects a directory without using cachebro's own state. It finds the directory's
// work tree, the mounts on it, on its parents and in its subtree, and the processes that use it.
// The commands mount and unmount use it, and the daemon uses it to see whether an overlay covers
// the project.
//
// It only reads /proc and the file system, and has no state and no locks. No function waits for a
// path under a mount that may be dead or hung, unless its comment gives a limit.
package mounts
