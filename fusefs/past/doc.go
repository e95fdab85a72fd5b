// Package past is a read-only file system that shows earlier states of a project. at/MOMENT is the
// tree at a moment, and versions/PATH is a directory with one file for each version of PATH. The
// file system has its own process and mount, so the project's mount never waits for it.
//
// The tree at a moment never changes, so the kernel may cache all of it. Only a relative name such
// as at/10m means another moment each time it is used. A file's content is fetched whenever the
// file is opened. Purged and pruned contents cannot be read.
package past

import (
	"context"

	"cachebro/store/wire"
)

// Source provides the history. Its errors are those of package wire.
type Source interface {
	// Moment finds the newest version at a moment. words are the components of its path under at/,
	// for example "10m", or "prompt" and "last". If more is set, words do not yet name a moment,
	// and another component must follow.
	Moment(ctx context.Context, words []string) (seq uint64, more bool, err error)
	// Past lists a directory.
	Past(ctx context.Context, q wire.PastQuery) ([]wire.PastEntry, error)
	// Content returns a content by its hash, which Past has listed.
	Content(ctx context.Context, hash string) ([]byte, error)
}

// Type is the file system type of these mounts in the mount table.
const Type = "fuse.cachebro-past"
