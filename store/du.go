package store

import (
	"context"
	"slices"
	"strings"

	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// Share is what one path, session or class takes.
type Share struct {
	Name     string
	Bytes    int64 // of contents, as they are stored
	Versions int
}

// Usage says who takes how much of the store. Disk is the allocated size of
// its directory, the sum of Contents, Log and Slack. Shared is the part of
// Contents that the stores of sibling worktrees have too.
type Usage struct {
	Disk     int64
	Shared   int64
	Free     int64
	Contents int64 // stored contents with their keys
	Log      int64 // versions, indexes and all other records
	Slack    int64 // what Badger has not given back yet
	Paths    []Share
	Sessions []Share
	Classes  []Share
}

// DU measures the store. A content counts for the version that stored it
// first. depth > 0 sums the paths up to that many elements; top > 0 keeps the
// largest.
func (s *Store) DU(ctx context.Context, depth, top int) (Usage, error) {
	var u Usage
	var err error
	var elsewhere int64
	u.Shared, elsewhere = space.Shared(s.dir)
	u.Disk = s.room.Usage(s.opt.Now(), true) + elsewhere
	if u.Free, _, err = s.room.Free(); err != nil {
		return u, err
	}
	sizes, err := s.contents.Sizes()
	if err != nil {
		return u, err
	}
	paths, sessions, classes := map[string]*Share{}, map[string]*Share{}, map[string]*Share{}
	add := func(m map[string]*Share, name string, n int64) {
		sh := m[name]
		if sh == nil {
			sh = &Share{Name: name}
			m[name] = sh
		}
		sh.Bytes += n
		sh.Versions++
	}
	err = s.scan(0, false, func(v Version) bool {
		k := content.Short(v.Blob)
		n := sizes[k]
		sizes[k] = 0
		name := string(v.Path)
		if depth > 0 {
			if el := strings.SplitN(name, "/", depth+1); len(el) > depth {
				name = strings.Join(el[:depth], "/")
			}
		}
		add(paths, name, n)
		add(sessions, string(v.Actor.Session), n)
		add(classes, [...]string{"tracked", "ignored", "excluded"}[min(v.Class, 2)], n)
		return ctx.Err() == nil
	}, nil)
	if err != nil {
		return u, err
	}
	if err := ctx.Err(); err != nil {
		return u, err
	}
	u.Paths, u.Sessions, u.Classes = largest(paths, top), largest(sessions, top), largest(classes, 0)
	u.Contents, u.Log, err = s.measure(ctx)
	u.Slack = max(0, u.Disk-u.Contents-u.Log)
	return u, err
}

func largest(m map[string]*Share, top int) []Share {
	out := make([]Share, 0, len(m))
	for _, sh := range m {
		out = append(out, *sh)
	}
	slices.SortFunc(out, func(a, b Share) int {
		if c := compare(b.Bytes, a.Bytes); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if top > 0 && len(out) > top {
		out = out[:top]
	}
	return out
}

// measure tells what contents and everything else take on disk. A value in the
// value log takes its size, a pack file its own; what lies in the tables shares their files, which
// are compressed, in proportion to its size.
func (s *Store) measure(ctx context.Context) (contents, log int64, err error) {
	var logged, tabled [2]int64 // of contents, of the rest
	err = s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item, kind := it.Item(), 1
			if content.IsKey(item.Key()) {
				kind = 0
			}
			n := item.ValueSize()
			if n >= db.ValueThreshold {
				logged[kind] += n
				n = 0
			}
			tabled[kind] += item.KeySize() + n
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	files := float64(s.room.Tables()) / float64(max(tabled[0]+tabled[1], 1))
	return logged[0] + s.room.Packs() + int64(float64(tabled[0])*files), logged[1] + int64(float64(tabled[1])*files), err
}
