package ignore

import (
	"bytes"
	"sort"

	"cachebro/store/leaf/gitdir"
)

// tracked holds the paths in git's index as one string of names, sorted by bytes as in git. A map
// of 200,000 names would take 40 MB.
type tracked struct {
	names  string
	begins []uint32 // offset of each name
	dirs   bool     // some names are directories (a sparse index) and end in a slash
}

func (t *tracked) name(i int) string {
	if i+1 < len(t.begins) {
		return t.names[t.begins[i]:t.begins[i+1]]
	}
	return t.names[t.begins[i]:]
}

func (t *tracked) has(path string) bool {
	if t == nil {
		return false
	}
	if t.find(path) { // the index lists a submodule as a file
		return true
	}
	if t.dirs {
		for i := range len(path) {
			if path[i] == '/' && t.find(path[:i+1]) {
				return true
			}
		}
	}
	return false
}

func (t *tracked) find(path string) bool {
	i := sort.Search(len(t.begins), func(i int) bool { return t.name(i) >= path })
	return i < len(t.begins) && t.name(i) == path
}

// readIndex decodes the names in git's index.
func readIndex(raw []byte) (*tracked, error) {
	var t *tracked
	var all []byte
	_, err := gitdir.ReadIndex(raw, func() func(gitdir.IndexEntry) error {
		t, all = &tracked{}, make([]byte, 0, len(raw)/2)
		return func(e gitdir.IndexEntry) error {
			if n := len(t.begins); n > 0 {
				switch bytes.Compare(all[t.begins[n-1]:], e.Name) {
				case 0:
					return nil // a further stage of a conflict
				case 1:
					return gitdir.ErrIndex
				}
			}
			t.dirs = t.dirs || bytes.HasSuffix(e.Name, []byte("/"))
			t.begins = append(t.begins, uint32(len(all)))
			all = append(all, e.Name...)
			return nil
		}
	})
	if err != nil {
		return nil, err
	}
	t.names = string(all)
	return t, nil
}
