package keep

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/space"
)

// Share is the space taken by one path, session or class.
type Share struct {
	Name     string
	Bytes    int64 // stored size of the contents
	Versions int
}

// MarshalJSON adds a name that is not UTF-8 as bytes, because JSON strings cannot hold such a name.
func (s Share) MarshalJSON() ([]byte, error) {
	type plain Share
	x := struct {
		plain
		Raw []byte `json:"Name_base64,omitempty"`
	}{plain: plain(s)}
	if !utf8.ValidString(s.Name) {
		x.Raw = []byte(s.Name)
	}
	return json.Marshal(x)
}

// Usage describes how the store uses its space. Disk is the allocated size of its directory, and
// the sum of Contents, Log and Slack. Shared is the part of Contents that sibling worktrees' stores
// also have.
type Usage struct {
	Disk     int64
	Shared   int64
	Free     int64
	Contents int64 // stored contents with their keys
	Log      int64 // versions, indexes and all other records
	Slack    int64 // space that Badger has not freed yet
	Paths    []Share
	Sessions []Share
	Classes  []Share
}

// DU measures the store. A content counts for the version that stored it first.
func (k *Keeper) DU(ctx context.Context) (Usage, error) {
	var u Usage
	var err error
	var elsewhere int64
	u.Shared, elsewhere = space.Shared(k.s.Dir())
	u.Disk = k.room.Usage(k.opt.Now(), true) + elsewhere
	u.Free, _, err = k.room.Free()
	if err != nil {
		return u, err
	}
	sizes, err := k.contents.Sizes()
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
	err = k.s.Each(func(v store.Version) bool {
		k := content.Short(v.Blob)
		n := sizes[k]
		sizes[k] = 0
		add(paths, string(v.Path), n)
		add(sessions, string(v.Actor.Session), n)
		add(classes, [...]string{"tracked", "ignored", "excluded"}[min(v.Class, 2)], n)
		return ctx.Err() == nil
	})
	if err != nil {
		return u, err
	}
	if err := ctx.Err(); err != nil {
		return u, err
	}
	u.Paths = largest(paths)
	u.Sessions = largest(sessions)
	u.Classes = largest(classes)
	u.Contents, u.Log, err = k.db.Measure(ctx, content.IsKey)
	u.Contents += k.room.Packs()
	u.Slack = max(0, u.Disk-u.Contents-u.Log)
	return u, err
}

func largest(m map[string]*Share) []Share {
	out := make([]Share, 0, len(m))
	for _, sh := range m {
		out = append(out, *sh)
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name))
	})
	return out
}
