package survey

import (
	"context"
	"errors"

	"cachebro/store"
)

// listing reads the live paths of the log, in the order of their bytes. It reads them in pages,
// because a scan also writes to the store. If a path has changed since its page was read, its file
// differs from the listed version, and the scan looks the path up again. A listing belongs to one
// goroutine.
type listing struct {
	store   *store.Store
	upTo    uint64          // only versions up to this one can be missing in the tree
	buf     []store.Version // holds every page in turn
	page    []store.Version // the rest of the newest page
	last    store.Path      // the last path of the newest page
	ended   bool
	skipped []store.Version // listed versions whose files were not found
}

const listingPage = 2000

var errFull = errors.New("the page is full")

// next returns the newest version of the next path, nil if there are no more.
func (l *listing) next() (*store.Version, error) {
	if len(l.page) == 0 && !l.ended {
		if l.buf == nil {
			l.buf = make([]store.Version, listingPage)
		}
		l.page = l.buf[:0]
		err := l.store.View(func(v *store.View) error {
			return v.LiveAfter(l.last, func(o store.Version) error {
				if len(l.page) == listingPage {
					return errFull
				}
				l.page = append(l.page, o)
				return nil
			})
		})
		l.ended = err == nil
		if err != nil && !errors.Is(err, errFull) {
			return nil, err
		}
		if n := len(l.page); n > 0 {
			l.last = l.page[n-1].Path
		}
	}
	if len(l.page) == 0 {
		return nil, nil
	}
	return &l.page[0], nil
}

// pass moves on to the next path. missed says that the path it leaves has no file.
func (l *listing) pass(missed bool) {
	if missed && l.page[0].Seq <= l.upTo {
		l.skipped = append(l.skipped, l.page[0])
	}
	l.page = l.page[1:]
}

// find returns the newest version of a path, zero if the log has no such live path. Callers must
// request paths in order.
func (l *listing) find(p store.Path) (store.Version, error) {
	for {
		v, err := l.next()
		if v == nil || err != nil || v.Path > p {
			return store.Version{}, err
		}
		found := *v
		l.pass(v.Path < p)
		if found.Path == p {
			return found, nil
		}
	}
}

// missed returns the skipped versions, and all versions after the last requested path.
func (l *listing) missed(ctx context.Context) ([]store.Version, error) {
	for {
		v, err := l.next()
		if v == nil || err != nil {
			return l.skipped, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.pass(true)
	}
}
