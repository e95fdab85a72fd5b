// Package past is a read-only file system of earlier states of a project. at/MOMENT is
// the tree at a moment; versions/PATH is a directory with one file for each version of PATH. It
// has its own process and its own mount, so that the project's mount never waits for it.
//
// The tree at a moment never changes, so the kernel may cache all of it. Only a name such as
// at/10m stands for a later moment each time. Contents are fetched at each open; those that were
// purged or pruned in the meantime cannot be read here.
package past

import (
	"context"

	"cachebro/store/wire"
)

// Source provides the history. Its errors are those of package wire.
type Source interface {
	// Moment finds the newest version at a moment. words are the components of its path
	// under at/, such as "10m" or "prompt", "last". more means that words are only the
	// beginning of a moment and that another component follows.
	Moment(ctx context.Context, words []string) (seq uint64, more bool, err error)
	// Past lists a directory.
	Past(ctx context.Context, q wire.PastQuery) ([]wire.PastEntry, error)
	// Content returns the content with a hash that Past has listed.
	Content(ctx context.Context, hash string) ([]byte, error)
}

// Type is the file system type of these mounts in the mount table.
const Type = "fuse.cachebro-past"
