// Package sys holds the system calls with which the overlay reaches the files of the
// source, so that one place says how a system resolves, opens, describes and changes
// them. In the chain observe → version → index → serve it is below the first station.
//
// It knows no inodes and no requests, keeps nothing, and has no locks: plain functions
// on descriptors and on names in directories, and an errno as error. A name is one
// component, and no symbolic link is followed.
//
// There are two implementations: Linux's own (files ending in _linux.go), with openat2,
// O_PATH and /proc/self/fd, and a portable one (portable.go), built with the tag
// "portable" or for darwin, with POSIX's calls. [Points] tells them apart.
package sys
