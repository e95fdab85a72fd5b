//go:build linux && (amd64 || arm64)

package memo

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"cachebro/store/leaf/ignore"
)

// Classifier decides which paths of the project are tracked (ignore.Matcher).
type Classifier interface {
	Class(path string, isDir bool) ignore.Class
}

// judge checks every recorded path again after the command has ended. It returns what must stay the
// same for a replay, or the reasons against a replay.
func (r *recorder) judge(c Classifier, allowOutside bool) (seen []Seen, why []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := time.Now()
	for _, path := range slices.Sorted(maps.Keys(r.seen)) {
		o := r.seen[path]
		where := r.places.classify(path)
		if where == outside && !allowOutside && !r.harmless(path, o) {
			r.refuseLocked(fmt.Sprintf("looked at %s, outside of the project (--allow-outside)", path))
			continue
		}
		if s, ok := r.judgeOne(path, o, where, c, end); ok {
			s.Path = path
			if where == inside {
				s.Inside, s.Path = true, r.rel(path)
			}
			seen = append(seen, s)
			if s.Made && s.Stat.Kind == dir {
				seen = append(seen, r.madeBelow(path, c, end)...)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.kernel)) {
		seen = append(seen, Seen{Path: path, Stat: stat{Kind: kernel}, Hash: r.kernel[path]})
	}
	return seen, r.why
}

// madeBelow returns the files that the command left in a directory that it created.
func (r *recorder) madeBelow(top string, c Classifier, end time.Time) (seen []Seen) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		if _, ok := r.places.cacheOf(path); ok {
			return nil
		}
		if r.class(c, path, inside, d.IsDir()) == ignore.Tracked && !d.IsDir() {
			r.refuseLocked("wrote " + r.rel(path))
			return fs.SkipAll
		}
		if len(r.seen)+len(seen) > maxPaths {
			r.refuseLocked(fmt.Sprintf("left more than %d files behind", maxPaths))
			return fs.SkipAll
		}
		s := Seen{Path: r.rel(path), Inside: true, Stat: look(path), Made: true}
		s.Racy = !s.Stat.stable(end)
		if !d.IsDir() {
			s.Hash = s.content(path)
		}
		seen = append(seen, s)
		return nil
	})
	if err != nil {
		r.refuseLocked("what it left in " + r.rel(top) + " cannot be read")
	}
	return seen
}

func (r *recorder) rel(path string) string { return path[min(len(path), len(r.places.Root)+1):] }

// harmless reports whether an access outside the project revealed only that nothing exists there,
// or that a path leads to the project. Changed paths are judged separately.
func (r *recorder) harmless(path string, o *observation) bool {
	switch o.first.Kind {
	case absent:
		return true
	case link:
		return !o.changed || r.places.above(path) && !o.read
	case dir:
		return !o.read
	}
	return r.places.above(path) && !o.read
}

func (r *recorder) judgeOne(path string, o *observation, where place, c Classifier, end time.Time) (s Seen, ok bool) {
	now := look(path)
	s = Seen{Stat: now, Racy: !now.stable(end)}
	moved := !now.sameInode(o.first)
	if moved && now.Kind == dir && o.first.Kind == dir && now.Mode == o.first.Mode {
		moved = false // entries may be added and removed; a listing is compared below
	}
	if o.own && now.Kind == absent {
		return s, o.looked && !r.ownLocked(path) // if the command looked for the path, the path must not exist at a replay either
	}
	if moved && (o.changed || o.own) {
		name := path
		if where == inside {
			name = r.rel(path)
		}
		switch class := r.class(c, path, where, now.Kind == dir); {
		case where != inside && o.own && now.Kind == dir && r.places.leadsToCache(path, func([]string) bool { return true }):
			return s, false
		case where != inside:
			r.refuseLocked("wrote " + name + ", outside of the project")
		case class == ignore.Tracked && now.Kind != dir:
			r.refuseLocked("wrote " + name)
		case class == ignore.Excluded && under(path, r.places.Root+"/.git"):
			r.refuseLocked("wrote " + name)
		case o.looked:
			r.refuseLocked("changed " + name + ", which it had looked at, so the next run may print something else")
		default: // must exist as the command left it
			s.Made = true
			if s.Stat.Kind != dir {
				s.Hash = s.content(path)
			}
			return s, true
		}
		return s, false
	}
	if o.access && now.Atime != o.first.Atime && now.Kind == o.first.Kind {
		r.refuseLocked("the access time of " + path + " changed while it ran, and its output may show it")
	}
	s.Access, s.Dated, s.By = o.access, o.dated, o.by
	if moved {
		r.refuseLocked(path + " was changed by somebody else meanwhile")
		return s, false
	}
	if o.own && !o.looked {
		return s, false
	}
	switch now.Kind {
	case file:
		if o.read {
			s.Hash = hashFile(path)
			if s.Hash == "" && now.Mode&0o444 != 0 && now.Size > 0 {
				s.Times = true // the content cannot be compared here, but other users may be able to read it
			}
		}
		s.Times = s.Times || o.strict
	case link:
		s.Hash = o.target
		s.Times = o.strict
	case dir:
		if o.names != "" {
			s.Ordered = o.ordered
			s.Hash = hashNames(path, o.ordered)
			if s.Hash != o.names {
				r.refuseLocked("the names in " + path + " changed while it ran")
				return s, false
			}
		}
		s.Times = o.strict
	case special:
		if o.read {
			r.refuseLocked("read " + path + ", which is not a regular file")
			return s, false
		}
		s.Times = o.strict
	}
	return s, true
}

func (r *recorder) class(c Classifier, path string, where place, isDir bool) ignore.Class {
	if where != inside || c == nil || path == r.places.Root {
		return ignore.Tracked
	}
	return c.Class(r.rel(path), isDir)
}
