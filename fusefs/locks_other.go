//go:build portable || darwin

package fusefs

import (
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// uncached always reports false here; see locks_linux.go.
func (n *inode) uncached() bool { return false }

// forwardsLocks is false: without OFD locks the server cannot take a process's locks on the source.
// So the kernel handles locks, which only exclude other processes on the mount.
const forwardsLocks = false

type locking struct {
	answer    func(unique uint64, st fuse.Status)
	releasing func() bool
}

func (o *overlay) unlockOwner(*handle, uint64)                                   {}
func (o *overlay) unlockHandle(*handle)                                          {}
func (o *overlay) interrupted(uint64) bool                                       { return false }
func (o *overlay) endLocks()                                                     {}
func (o *overlay) lockDescriptors(func(key uint64, fd int))                      {}
func (o *overlay) restoreLocks([]uint32, map[uint64]*inode, map[uint64]*os.File) {}
