package store

import (
	"cmp"
	"log/slog"
	"time"

	"cachebro/store/content"
	"cachebro/store/leaf/limits"
)

// Options configure a Store. The zero value is usable.
type Options struct {
	// Cap is the size in bytes that the store directory should not exceed; 0:
	// limits.History.
	Cap int64
	// Allowed, if not nil, returns how large the store may be, given its current size. Collect
	// calls it if several stores share Cap (see space.Allot).
	Allowed func(used int64) int64
	// MinFree is the free space in bytes to leave on the store's file system. With less free space,
	// Apply returns ErrNoSpace and collection starts. 0: 2 GiB or 5 %, whichever is less, but at
	// least 24 MiB. Badger may need 24 MiB to finish pending work; it dies of SIGBUS when the disk
	// cannot hold a mapped page.
	MinFree int64
	// IgnoredCap is the budget in bytes of contents of ignored files; 0: a
	// quarter of Cap.
	IgnoredCap int64
	// MaxBlob is the largest content in bytes; 0: limits.Content.
	MaxBlob int64
	// Keep is the number of versions of each file whose content is kept regardless of age; 0:
	// limits.KeepVersions. A store above Cap may drop all superseded contents.
	Keep int
	// KeepAge is the age up to which the content of every version is kept, unless the store is
	// above Cap; 0: limits.KeepAge.
	KeepAge time.Duration
	// MaxAge, if not 0, is the age from which all content is dropped. If it is set, the contents of
	// present files are dropped before those that an undo needs. It is used for the history of
	// files outside projects.
	MaxAge time.Duration
	// Unscanned means that no scan looks for unrecorded changes, as for files outside projects. A
	// directory's inode then tells whether the directory was replaced.
	Unscanned bool
	// Ballast is the size in bytes of a preallocated file that is freed to open the store
	// on a full disk; 0: 32 MiB; < 0: none.
	Ballast int64
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log receives errors of background work; nil: they are dropped.
	Log *slog.Logger
	// Siblings, if not nil, lists the stores of other worktrees of the same repository. This store
	// may share their pack files (see content.Store.Adopt).
	Siblings func() []content.Sibling
	// ReadOnly opens the store without repairing or migrating anything.
	ReadOnly bool
}

const mib = int64(1) << 20

func (o Options) withDefaults() Options {
	o.Cap = cmp.Or(o.Cap, limits.History)
	o.IgnoredCap = cmp.Or(o.IgnoredCap, o.Cap/4)
	o.MaxBlob = cmp.Or(o.MaxBlob, limits.Content)
	o.Keep = cmp.Or(o.Keep, limits.KeepVersions)
	o.KeepAge = cmp.Or(o.KeepAge, limits.KeepAge)
	o.Ballast = cmp.Or(o.Ballast, 32*mib)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
