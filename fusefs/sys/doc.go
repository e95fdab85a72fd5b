// Package sys holds the system calls with which the overlay opens, reads and changes files of the
// source, so that differences between systems are in one place.
//
// It consists of functions on descriptors and on names in directories, which return an errno as
// error. It has no state and no locks, and knows nothing of inodes or requests. A name is one
// component. No symbolic link is followed.
//
// There are two implementations. The one for Linux (_linux.go) uses openat2, O_PATH and
// /proc/self/fd. The portable one (portable.go) uses POSIX calls. It is built for Darwin and with
// the tag "portable". [Points] tells them apart.
package sys
