package store

import (
	"errors"
	"fmt"

	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/space"

	"golang.org/x/sys/unix"
)

// The errors that callers may test for with errors.Is. Hint returns advice for most of them.
var (
	// ErrLocked means that another process has this store open.
	ErrLocked = db.ErrLocked
	// ErrDamaged means that a file or record of the store cannot be read.
	ErrDamaged = db.ErrDamaged
	// ErrNewer means that a later version of the program wrote the store, an exported file or an object
	// in a bucket.
	ErrNewer = errors.New("written by a newer version of cachebro")
	// ErrNoSpace means that the store's file system has too little free space (see
	// Options.MinFree). Nothing was written.
	ErrNoSpace = space.ErrFull
	// ErrPruned means that the store does not have the content. Retention or a purge dropped it, or
	// it was never stored.
	ErrPruned = content.ErrPruned
	// ErrNotFound means that there is no such version, session or plan.
	ErrNotFound = errors.New("not found")
	// ErrNoBase means that a Change has TailFrom, but the store does not have the beginning of its
	// content. The caller reads the whole file and applies the batch again. See BaseError.
	ErrNoBase = content.ErrNoBase
	// ErrClosed means that the store was closed.
	ErrClosed = db.ErrClosed
	// ErrTooLarge means that the content is larger than MaxBlob.
	ErrTooLarge = content.ErrTooLarge
)

// hints holds the advice for each error.
var hints = map[error]string{
	ErrLocked:   "another cachebro daemon owns it: cachebro status",
	ErrDamaged:  "check and repair it: cachebro store fsck",
	ErrNewer:    "use that version of cachebro",
	ErrNoSpace:  "free some space on the disk of the history; cachebro store prune needs some itself",
	ErrPruned:   "cachebro log shows which versions still have content",
	unix.EFBIG:  "the limit on file sizes is too low: ulimit -f unlimited",
	unix.EMFILE: "the limit on open files is too low: ulimit -n 4096",
}

// Hint returns the advice that belongs to an error of this package, "" if there is none.
func Hint(err error) string {
	for sentinel, hint := range hints {
		if errors.Is(err, sentinel) {
			return hint
		}
	}
	return ""
}

// BaseError identifies the change for which Apply failed with ErrNoBase. Nothing of its batch was
// stored.
type BaseError struct {
	Index int  // index of the change in the slice given to Apply
	Path  Path // path of the change
}

func (e *BaseError) Error() string {
	return fmt.Sprintf("%v: %q (change %d)", ErrNoBase, string(e.Path), e.Index)
}

// Is makes errors.Is(err, ErrNoBase) true.
func (e *BaseError) Is(target error) bool { return target == ErrNoBase }
