package search

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// NameHit is a file found by its name.
type NameHit struct {
	Path  store.Path
	Score float64
}

// Names finds files whose path contains a pattern's letters in order. The score is higher the
// closer the letters are to each other, to word starts and to the base name.
func (x *table) Names(pattern string, q Query, limit int) []NameHit {
	needle := strings.ToLower(strings.Join(strings.Fields(pattern), ""))
	if needle == "" {
		return nil
	}
	var out []NameHit
	x.live(func(p store.Path, f *file) bool {
		if !q.admits(p, f.kind) {
			return true
		}
		if s, ok := fuzzy(string(p), needle); ok {
			out = append(out, NameHit{p, s})
		}
		return true
	})
	x.mu.RLock()
	for p := range x.binary {
		if s, ok := fuzzy(string(p), needle); ok && q.admits(p, KindOf(string(p))) {
			out = append(out, NameHit{p, s})
		}
	}
	x.mu.RUnlock()
	slices.SortFunc(out, func(a, b NameHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Path, b.Path))
	})
	return out[:min(len(out), limit)]
}

// Admits reports whether a path passes the query's filters.
func (q Query) Admits(p store.Path) bool { return q.admits(p, KindOf(string(p))) }

// IsPartOf reports whether the query admits a path and the path contains the query's pattern.
// Spaces in the pattern are ignored.
func (q Query) IsPartOf(p store.Path) bool {
	needle := strings.ToLower(strings.Join(strings.Fields(q.Pattern), ""))
	return needle != "" && strings.Contains(strings.ToLower(string(p)), needle) && q.admits(p, KindOf(string(p)))
}

// newer returns the newest version of each file that has versions after seq. For a deleted file,
// only the sequence number is set.
func (x *table) newer(seq uint64) map[store.Path]*file {
	newer := map[store.Path]*file{}
	for {
		vs, err := x.corpus.Since(seq, pastPage)
		if err != nil || len(vs) == 0 {
			return newer
		}
		for _, v := range vs {
			seq = v.Seq
			if x.searchable(v) {
				newer[v.Path] = fileOf(v)
			} else if v.Deleted() {
				newer[v.Path] = &file{seq: v.Seq}
			}
		}
	}
}

// fileOf returns the table's entry for a version that is not indexed.
func fileOf(v store.Version) *file {
	return &file{size: v.Stat.Size, seq: v.Seq, time: v.Time, kind: KindOf(string(v.Path))}
}

// live calls fn with the existing files, including those newer than the index, until fn returns
// false. The index is locked during the calls, so fn should be fast. fn must not keep its argument.
func (x *table) live(fn func(store.Path, *file) bool) {
	x.mu.RLock()
	ready, seq := x.ready, x.seq
	x.mu.RUnlock()
	if !ready {
		enough := errors.New("enough")
		_ = x.corpus.Live("", func(v store.Version) error {
			if x.searchable(v) && !fn(v.Path, fileOf(v)) {
				return enough
			}
			return nil
		})
		return
	}
	newer := x.newer(seq)
	x.mu.RLock()
	defer x.mu.RUnlock()
	for p, f := range x.files {
		if n := newer[p]; n != nil && n.seq > f.seq {
			continue
		}
		delete(newer, p)
		if !fn(p, &f) {
			return
		}
	}
	for p, f := range newer {
		if f.kind != "" && !fn(p, f) {
			return
		}
	}
}

// fuzzy scores how well a path fits lower-case letters, or returns false.
func fuzzy(p, needle string) (float64, bool) {
	low := strings.ToLower(p)
	base := strings.LastIndexByte(low, '/') + 1
	if i := strings.LastIndex(low, needle); i >= 0 {
		s := 100 + 20*float64(len(needle))/float64(len(low))
		if i >= base {
			s += 50
		}
		if i == base {
			s += 30
		}
		if stem, _, _ := strings.Cut(low[base:], "."); stem == needle || low[base:] == needle {
			s += 60
		}
		return s, true
	}
	best, ok := subsequence(low[base:], p[base:], needle)
	if ok {
		return best + 20, true
	}
	return subsequence(low, p, needle)
}

func subsequence(low, p, needle string) (s float64, ok bool) {
	at, last := 0, -2
	for i := 0; i < len(low) && at < len(needle); i++ {
		if low[i] != needle[at] {
			continue
		}
		switch {
		case i == last+1:
			s += 4
		case i == 0 || strings.IndexByte("/_-.", low[i-1]) >= 0 || unicode.IsUpper(rune(p[i])):
			s += 3
		default:
			s++
		}
		last = i
		at++
	}
	return s * 20 / float64(10+len(low)), at == len(needle)
}

// Suggest returns the dictionary's words closest to a pattern's unknown words, for "did you mean".
func (x *Index) Suggest(pattern string, n int) []string {
	x.mu.RLock()
	block := x.terms.block
	x.mu.RUnlock()
	type near struct {
		word string
		far  int
	}
	var all []near
	eachWord([]byte(pattern), func(start, end int) {
		w := string(appendFolded(nil, []byte(pattern[start:end])))
		if len(w) < 3 || len(w) > 40 || bytes.Contains(block, []byte("\n"+w+"\n")) {
			return
		}
		most := 1
		if len(w) > 5 {
			most = 2
		}
		for at := 1; at < len(block); {
			stop := at + bytes.IndexByte(block[at:], '\n')
			t := block[at:stop]
			at = stop + 1
			if d := len(t) - len(w); d > most || -d > most {
				continue
			}
			if len(t) == 0 || t[0] != w[0] && t[len(t)-1] != w[len(w)-1] {
				continue
			}
			if far := text.Distance(string(t), w); far <= most {
				all = append(all, near{string(t), far})
			}
		}
	})
	slices.SortStableFunc(all, func(a, b near) int { return a.far - b.far })
	var out []string
	for _, c := range all {
		if !slices.Contains(out, c.word) {
			out = append(out, c.word)
			if len(out) == n {
				break
			}
		}
	}
	return out
}
