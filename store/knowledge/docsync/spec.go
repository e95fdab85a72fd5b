package docsync

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/text"
)

// Limits of the files that a spec covers, and of the length of a spec and of a document's path.
// They exist because each pair is stored as one setting of the store.
const (
	maxMembers = 5000
	maxBytes   = 400 << 10 // total of paths and hashes
	maxPath    = 1500
)

// ErrTooMany means that a spec covers more files than a baseline can hold.
var ErrTooMany = errors.New("matches too many files")

func pattern(spec string) bool { return strings.ContainsAny(spec, "*?[") }

// covers reports whether a spec is a path, a directory that contains it, or a pattern that matches
// it.
func covers(spec string, p store.Path) bool {
	s := strings.TrimSuffix(spec, "/")
	below := s == "." || s != "" && p.Inside(store.Path(s))
	return below || pattern(spec) && text.MatchGlob(s, string(p))
}

// root returns the deepest directory or file that contains everything a spec covers.
func root(spec string) store.Path {
	s := strings.TrimSuffix(spec, "/")
	if i := strings.IndexAny(s, "*?["); i >= 0 {
		s = s[:max(0, strings.LastIndexByte(s[:i], '/'))]
	}
	if s == "." {
		s = ""
	}
	return store.Path(s)
}

// documentable reports whether a version is an existing file that may be documented.
func documentable(v store.Version) bool {
	return !v.Deleted() && v.Class == event.Tracked && !v.Stat.IsDir()
}

// ident returns a hash that distinguishes contents, even those that are not in the store.
func ident(v store.Version) store.Hash {
	switch {
	case v.Blob != (store.Hash{}):
		return v.Blob
	case v.Target != "":
		return sha256.Sum256([]byte("-> " + v.Target))
	case v.Stat.Size == 0:
		return sha256.Sum256(nil)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%d bytes of %d", v.Stat.Size, v.Stat.Mtime))
}

// members returns the files that a spec covers at a version of the log, without the document
// itself. If file is set, the spec covers only the file of that name.
func (s *Sync) members(k key, file bool, at uint64) (map[store.Path]store.Hash, error) {
	out := map[store.Path]store.Hash{}
	asked := map[store.Path]bool{}
	size := 0
	take := func(p store.Path, v store.Version, ok bool, err error) error {
		if err == nil && ok && documentable(v) {
			size += len(p) + 40
			out[p] = ident(v)
			if len(out) > maxMembers || size > maxBytes {
				return ErrTooMany
			}
		}
		return err
	}
	if !pattern(k.spec) && !strings.HasSuffix(k.spec, "/") {
		p := store.Path(k.spec)
		v, ok, err := s.store.AtSeq(p, at)
		if err != nil || file || ok && !v.Stat.IsDir() {
			return out, take(p, v, ok, err)
		}
	}
	add := func(p store.Path) error {
		if p == k.doc || asked[p] || !covers(k.spec, p) {
			return nil
		}
		asked[p] = true
		v, ok, err := s.store.AtSeq(p, at)
		return take(p, v, ok, err)
	}
	newest := s.store.Seq()
	err := s.store.Live(root(k.spec), func(v store.Version) error {
		if at >= newest && v.Path != k.doc && covers(k.spec, v.Path) {
			return take(v.Path, v, true, nil)
		}
		return add(v.Path)
	})
	// Add paths that existed at that time and are deleted now.
	for after := at; err == nil && after < newest; {
		var vs []store.Version
		vs, err = s.store.Since(after, 512)
		if len(vs) == 0 {
			break
		}
		for _, v := range vs {
			if err == nil {
				err = add(v.Path)
			}
		}
		after = vs[len(vs)-1].Seq
	}
	return out, err
}
