// Package sys holds the system calls with which the overlay opens, reads and changes files of the
// source, so that the differences between operating systems are in one place.
//
// It consists of functions on descriptors and on names in directories, which return an errno as
// error. It has no state and no locks, and does not depend on the overlay's inodes or requests. A
// name is a single path component. Symbolic links are never followed.
//
// There are two implementations. The one for Linux (_linux.go) uses openat2, O_PATH and
// /proc/self/fd. The portable one (portable.go) uses POSIX calls. It is compiled for Darwin, and
// for Linux with the build tag "portable". [Points] shows which of the two is in use.
package sys
