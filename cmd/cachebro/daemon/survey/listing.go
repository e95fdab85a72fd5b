package survey

import (
	"context"
	"errors"

	"cachebro/store"
)

// listing is what the log says is there, in the order of the paths' bytes. It is read
// in pages, because a scan writes to the store meanwhile. What has changed since a page
// was read is seen to differ from the file, and is asked for again. It belongs to one
// goroutine.
type listing struct {
	store *store.Store
	upTo  uint64 // only what is not newer can be missed
	page  []store.Version
	last  store.Path // of the page before this one, or of this one
	ended bool
	gone  []store.Version // was passed over: nothing was found there
}

const listingPage = 2000

// errFull ends a page.
var errFull = errors.New("the page is full")

// next is the newest version of the next path; nil: there are no more.
func (l *listing) next() (*store.Version, error) {
	if len(l.page) == 0 && !l.ended {
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

// pass goes on to the next path; missed notes that nothing was found at this one.
func (l *listing) pass(missed bool) {
	if missed && l.page[0].Seq <= l.upTo {
		l.gone = append(l.gone, l.page[0])
	}
	l.page = l.page[1:]
}

// at is the newest version of a path that comes after all that were asked for; zero:
// it is not there as far as the log knows.
func (l *listing) at(p store.Path) (store.Version, error) {
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

// missed are all that were passed over, and what comes after all that were asked for.
func (l *listing) missed(ctx context.Context) ([]store.Version, error) {
	for {
		v, err := l.next()
		if v == nil || err != nil {
			return l.gone, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.pass(true)
	}
}
