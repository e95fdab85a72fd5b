// Package mounts finds things out about a directory from outside cachebro's
// own state: the work tree it belongs to, the mounts on, above and below it,
// and the processes that stand in it. It is the ground that the commands of the
// first station (observe) build on.
//
// It reads /proc and the file system and writes nothing. No function blocks on
// a path under a mount that may be dead or hung, unless it says how long.
// There are no locks and no state.
package mounts
