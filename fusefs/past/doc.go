// Package past is a read-only file system of what a project was: at/MOMENT is the tree
// of a moment, versions/PATH has a file for each version. It stands in a process and a
// mount of its own: whatever happens to it, the project's mount does not wait for it.
//
// What a moment held never changes, so that the kernel may keep all of it; only a name
// such as at/10m means another moment a second later. Contents are asked for at each open:
// those that were purged or pruned meanwhile are not to be had from here.
package past

import (
	"context"

	"cachebro/store/wire"
)

// Source tells what there was. Errors are those of package wire.
type Source interface {
	// Moment finds the newest version of a moment by the words of its path below at/,
	// such as "10m" or "prompt", "last". More: the words go on in the next name.
	Moment(ctx context.Context, words []string) (seq uint64, more bool, err error)
	// Past lists a directory.
	Past(ctx context.Context, q wire.PastQuery) ([]wire.PastEntry, error)
	// Content is one that Past told of.
	Content(ctx context.Context, hash string) ([]byte, error)
}

// Type is the file system type of its mounts, as the mount table shows it.
const Type = "fuse.cachebro-past"
