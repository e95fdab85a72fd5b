// Package past is a read-only file system of earlier states of a project: at/MOMENT is
// the tree at a moment, versions/PATH has a file for each version. It has a process and a
// mount of its own: whatever happens to it, the project's mount does not wait.
//
// The tree at a moment never changes, so the kernel may cache all of it; only a name such
// as at/10m means another moment a second later. Contents are fetched at each open: those
// that were purged or pruned meanwhile cannot be read here.
package past

import (
	"context"

	"cachebro/store/wire"
)

// Source provides the history. Its errors are those of package wire.
type Source interface {
	// Moment finds the newest version at a moment, given by the names of its path below
	// at/, such as "10m" or "prompt", "last". more: the next name continues it.
	Moment(ctx context.Context, words []string) (seq uint64, more bool, err error)
	// Past lists a directory.
	Past(ctx context.Context, q wire.PastQuery) ([]wire.PastEntry, error)
	// Content returns a content that Past has listed.
	Content(ctx context.Context, hash string) ([]byte, error)
}

// Type is the file system type of these mounts in the mount table.
const Type = "fuse.cachebro-past"
