package store

import (
	"log/slog"
	"time"

	"cachebro/store/content"
	"cachebro/store/leaf/limits"
)

// Options of a store. The zero value is usable.
type Options struct {
	// Cap is the size in bytes that the store directory should not pass;
	// 0: limits.History.
	Cap int64
	// Allowed, if not nil, tells Collect what the store may take at present
	// when it takes used bytes: Cap is shared with others (see Allot).
	Allowed func(used int64) int64
	// MinFree is the free space in bytes to leave on the state file system:
	// below it Apply answers ErrNoSpace and collection starts; 0: 2 GiB or 5 %,
	// whichever is less, but never under 24 MiB, which Badger may need for
	// what it has begun (it dies of SIGBUS when a mapped page has no block).
	MinFree int64
	// IgnoredCap is the budget in bytes of contents of ignored files; 0: a
	// quarter of Cap.
	IgnoredCap int64
	// MaxBlob is the largest content in bytes; 0: limits.Content.
	MaxBlob int64
	// Keep is how many versions of a file retention leaves alone; 0: limits.KeepVersions.
	Keep int
	// KeepAge: younger versions are left alone as well; 0: limits.KeepAge.
	KeepAge time.Duration
	// MaxAge, if not 0, is for a history of places that nobody's project is: no older
	// content is kept, and what files hold now goes before what an undo would need.
	MaxAge time.Duration
	// Ballast is the size in bytes of the preallocated file that is given
	// back in order to open the store on a full disk; 0: 32 MiB; < 0: none.
	Ballast int64
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log receives what goes wrong in the background; nil: nothing.
	Log *slog.Logger
	// Siblings, if not nil, names the stores of worktrees of the same
	// repository, whose pack files this store may share (see content.Store.Adopt).
	Siblings func() []content.Sibling
	// ReadOnly opens for looking only; nothing is repaired or migrated.
	ReadOnly bool
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func (o Options) withDefaults() Options {
	if o.Cap == 0 {
		o.Cap = limits.History
	}
	if o.IgnoredCap == 0 {
		o.IgnoredCap = o.Cap / 4
	}
	if o.MaxBlob == 0 {
		o.MaxBlob = limits.Content
	}
	if o.Keep == 0 {
		o.Keep = limits.KeepVersions
	}
	if o.KeepAge == 0 {
		o.KeepAge = limits.KeepAge
	}
	if o.Ballast == 0 {
		o.Ballast = 32 * mib
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
