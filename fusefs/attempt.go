//go:build linux || darwin

package fusefs

import (
	"sync/atomic"
	"time"
	"unsafe"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// resendBit (FUSE_UNIQUE_RESEND) marks a request that the kernel already sent to an earlier server,
// which died without answering.
const resendBit = 1 << 63

// attempt is a change of names that is in progress. If the server dies during the change, the
// kernel sends the same request to its successor. The successor must find out whether the change
// was already made: a second unlink would fail, and a second exchange would undo the first.
// Repeating a write, a truncation or a change of attributes does no harm, so these have no
// attempts. An attempt ends when the reply has been written.
type attempt struct {
	unique  atomic.Uint64 // the id of the request; 0 if the slot is free
	state   atomic.Uint32 // attemptBegun, attemptReported
	server  uint32        // ledgerHead.serving when the attempt was recorded
	began   int64         // ns
	a, b    key           // the inodes that had the old name and, in a rename, the new name
	mode    uint32        // of a
	nlink   uint32
	size    int64
	mtime   int64
	renames bool
}

// attempts is the set of opcodes that can have an attempt.
const attempts uint64 = 1<<6 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<21 | 1<<24 | 1<<35 | 1<<45

const (
	attemptSize  = 128
	attemptCount = 256
	// attemptProbes is how many slots are tried for one attempt. There are far fewer threads than
	// slots.
	attemptProbes = 16

	attemptBegun    = 1
	attemptReported = 2 // done and reported to the Observer
)

func (l *ledger) attempt(i int) *attempt {
	return (*attempt)(unsafe.Pointer(&l.mem[attemptsAt+i%attemptCount*attemptSize]))
}

// earlier returns the attempt that an earlier server recorded for the same request, or nil.
func (o *overlay) earlier(in *fuse.InHeader) *attempt {
	if in.Unique&resendBit == 0 || o.ledger == nil {
		return nil
	}
	return o.ledger.find(in.Unique)
}

// try records what a request is about to change. a is the file that has the name; in a rename, b is
// the file that has the new name. The result may be nil.
func (o *overlay) try(in *fuse.InHeader, a, b *sys.Stat) *attempt {
	l := o.ledger
	if l == nil {
		return nil
	}
	if t := o.earlier(in); t != nil {
		return t
	}
	for i := range attemptProbes {
		t := l.attempt(int(in.Unique>>1) + i)
		if t.unique.Load() != 0 || !t.unique.CompareAndSwap(0, ^uint64(0)) {
			continue
		}
		t.server, t.began = l.head.serving.Load(), time.Now().UnixNano()
		t.a, t.b, t.mode, t.nlink, t.size, t.mtime = key{}, key{}, 0, 0, 0, 0
		t.renames = b != nil
		if a != nil {
			t.a, t.mode, t.nlink, t.size, t.mtime = keyOf(a), a.Mode, a.Nlink, a.Size, a.Mtime
		}
		if b != nil && b.Mode != 0 {
			t.b = keyOf(b)
		}
		t.state.Store(attemptBegun)
		t.unique.Store(in.Unique &^ resendBit)
		return t
	}
	return nil
}

// find returns the attempt of a request, or nil.
func (l *ledger) find(unique uint64) *attempt {
	unique &^= resendBit
	for i := range attemptProbes {
		if t := l.attempt(int(unique>>1) + i); t.unique.Load() == unique {
			return t
		}
	}
	return nil
}

// replied ends the attempt of a request, if it was one.
func (l *ledger) replied(unique uint64) {
	if t := l.find(unique); t != nil {
		t.unique.Store(0)
	}
}

// prune frees the attempts of all servers except the last two, and attempts that were only half
// recorded when a server died. It reports whether unfinished renames remain.
func (l *ledger) prune() (renames bool) {
	for i := range attemptCount {
		t := l.attempt(i)
		switch u := t.unique.Load(); {
		case u == 0:
		case u == ^uint64(0) || t.server+2 < l.head.serving.Load():
			t.unique.Store(0)
		default:
			renames = renames || t.renames && !t.wasReported()
		}
	}
	return renames
}

// markDone records that the change was made and reported to the Observer.
func (t *attempt) markDone() {
	if t != nil {
		t.state.Store(attemptReported)
	}
}

// wasReported reports whether an earlier server did everything except send the reply.
func (t *attempt) wasReported() bool { return t != nil && t.state.Load() == attemptReported }

// madeEarlier reports whether an earlier server made the file sx for the same request. Until the
// reply, the kernel lets no other process on the mount make the name. A file that was made directly
// on the source has an earlier birth time. File systems' clocks may be late by one tick.
func (t *attempt) madeEarlier(sx *sys.Stat, op event.Op) bool {
	const tick = int64(20 * time.Millisecond)
	return t != nil && makes(op, sx.Mode) &&
		(sx.Birth == 0 || sx.Birth >= t.began-tick)
}
