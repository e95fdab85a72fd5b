package search

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// FileID returns the id of a file. The ids of hits are a prefix and 8 hex digits.
func FileID(p store.Path) string { return "fil-" + hash8(string(p)) }

// SymbolID returns the id of a definition.
func SymbolID(p store.Path, name string) string { return "sym-" + hash8(string(p)+"\x00"+name) }

// SessionID returns the id of a client's session.
func SessionID(s store.SessionID) string { return "ses-" + hash8(string(s)) }

// VersionID returns the id of a version, made from its sequence number.
func VersionID(seq uint64) string { return fmt.Sprintf("ver-%08x", uint32(seq)) }

func hash8(s string) string { return text.Hash([]byte(s))[:8] }

// FileOf returns the file with an id that FileID returned.
func (x *table) FileOf(id string) (store.Path, bool) {
	var found store.Path
	x.live(func(p store.Path, _ *file) bool {
		if FileID(p) != id {
			return true
		}
		found = p
		return false
	})
	return found, found != ""
}

// Best reorders the lines found by an exact query for a reader who sees only the first lines. Files
// that fit best come first: a line that defines the pattern counts for more than a line that uses
// it. Within a file, the first defining line comes first, and the other lines stay in order.
func (x *Index) Best(r *Result, q Query, h Hints) {
	x.mu.RLock()
	ready, seq := x.ready, x.seq
	x.mu.RUnlock()
	var newer map[store.Path]*file
	if ready {
		newer = x.newer(seq)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	type group struct {
		from, to int
		weight   float64
	}
	var groups []group
	for i := 0; i < len(r.Lines); {
		g := group{from: i, to: i + 1, weight: 0.5}
		p := r.Lines[i].Path
		f, known := x.files[p]
		if n := newer[p]; n != nil && n.seq > f.seq && n.kind != "" {
			f, known = *n, true
		}
		if !known {
			f.kind = KindOf(string(p))
		}
		g.weight = weight(p, &f, nil, h)
		for g.to < len(r.Lines) && r.Lines[g.to].Path == p {
			g.to++
		}
		if at := slices.IndexFunc(r.Lines[g.from:g.to], func(l Line) bool { return defines(l.Text, q) }); at >= 0 {
			g.weight *= 4
			first := r.Lines[g.from+at]
			copy(r.Lines[g.from+1:g.from+at+1], r.Lines[g.from:g.from+at])
			r.Lines[g.from] = first
		}
		groups = append(groups, g)
		i = g.to
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.weight, a.weight) })
	out := make([]Line, 0, len(r.Lines))
	for _, g := range groups {
		out = append(out, r.Lines[g.from:g.to]...)
	}
	r.Lines = out
}

// defines reports whether a line looks like the definition of what a query asks for.
func defines(line []byte, q Query) bool {
	text := strings.TrimSpace(string(line))
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "func", "type", "class", "def", "fn", "struct", "interface", "trait", "enum", "const", "var", "let", "function", "export", "pub", "async", "#define", "module", "impl", "public", "private", "protected", "static", "abstract":
	default:
		return strings.HasPrefix(text, "#") && word != "#" && strings.Trim(word, "#") == ""
	}
	head := text
	if i := strings.IndexAny(text, "{="); i > 0 {
		head = text[:i]
	}
	if q.Regex {
		return true
	}
	if !q.CaseSensitive {
		head = strings.ToLower(head)
		return strings.Contains(head, strings.ToLower(q.Pattern))
	}
	return strings.Contains(head, q.Pattern)
}

// Lines returns lines first to last of a file's present content, or "" if the file does not exist.
func (x *table) Lines(p store.Path, first, last int) string {
	content, err := x.corpus.Read(p, nil)
	if err != nil {
		return ""
	}
	content, ok := text.Shown(content)
	if !ok {
		return ""
	}
	starts := lineStarts(content)
	if first < 1 || first > len(starts) {
		return ""
	}
	end := len(content)
	if last < len(starts) {
		end = starts[last]
	}
	return string(content[starts[first-1]:end])
}

// BestLine returns the line of a chunk that has the most words of a natural query.
func (x *Index) BestLine(r Ranked, query string) (no int, text string) {
	terms := queryTerms(query)
	stems := newStemmer()
	body := x.Lines(r.Path, r.First, r.Last)
	best := -1.0
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		has := stemCounts([]byte(line), stems)
		s := 0.0
		for _, t := range terms {
			if has[t.text] > 0 {
				s += t.weight
			}
		}
		if s > 0 && defines([]byte(line), Query{Regex: true}) {
			s += 0.5
		}
		if s > best {
			best = s
			no, text = r.First+i, line
		}
	}
	return no, text
}

// List calls fn for each file at or below a path, in path order, with the data that the index has
// about the file.
func (x *table) List(under store.Path, fn func(p store.Path, indexed bool, chunks int, seq uint64)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var paths []store.Path
	for p := range x.files {
		if (Query{Path: string(under)}).admits(p, "") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		f := x.files[p]
		fn(p, f.indexed, f.chunks.len(), f.seq)
	}
}

// Reindexed counts the files that Reconcile found to be different.
type Reindexed struct{ Changed, New, Deleted, Live int }

// ChangesSince counts the paths that have versions after seq, by the kind of change.
func (x *table) ChangesSince(seq uint64) (r Reindexed) {
	newest, fresh := map[store.Path]store.Version{}, map[store.Path]bool{}
	for {
		vs, err := x.corpus.Since(seq, window)
		if err != nil || len(vs) == 0 {
			break
		}
		for _, v := range vs {
			if _, known := newest[v.Path]; !known && v.Prev == 0 {
				fresh[v.Path] = true
			}
			newest[v.Path], seq = v, v.Seq
		}
	}
	for p, v := range newest {
		switch {
		case v.Deleted():
			r.Deleted++
		case !x.searchable(v):
		case fresh[p]:
			r.New++
		default:
			r.Changed++
		}
	}
	return r
}

// Reconcile checks an index without rebuilding it: it compares the index with the version log, file
// by file, and corrects differences. Files at or below the path forget are indexed again in any
// case. If forget is "", only files with differences are indexed again.
func (x *Index) Reconcile(ctx context.Context, forget store.Path) (Reindexed, error) {
	var r Reindexed
	if err := x.CatchUp(ctx); err != nil {
		return r, err
	}
	x.write.Lock()
	defer x.write.Unlock()
	if x.idx == nil {
		return r, errNoIndex
	}
	live := map[store.Path]store.Version{}
	if err := x.corpus.Live("", func(v store.Version) error {
		live[v.Path] = v
		return ctx.Err()
	}); err != nil {
		return r, err
	}
	if err := x.forgetRemoved(ctx, math.MaxInt64); err != nil {
		return r, err
	}
	x.mu.RLock()
	seq := x.seq
	b := x.newBatch()
	for p, f := range x.files {
		v, ok := live[p]
		switch {
		case !ok:
			v = store.Version{Path: p, Op: store.OpUnlink}
			r.Deleted++
		case forget != "" && (Query{Path: string(forget)}).admits(p, ""), f.hash != v.Blob && f.hash != (store.Hash{}):
			r.Changed++
		default:
			continue
		}
		b.take(v)
	}
	for p := range x.binary {
		if _, ok := live[p]; !ok {
			b.take(store.Version{Path: p, Op: store.OpUnlink})
		}
	}
	for p, v := range live {
		if _, known := x.files[p]; !known && x.searchable(v) && v.Stat.Size > 0 {
			b.take(v)
		}
	}
	before := len(x.files)
	x.mu.RUnlock()
	if len(b.files) > 0 {
		if err := b.commit(ctx, seq, true); err != nil {
			return r, err
		}
	}
	x.mu.RLock()
	r.Live = len(x.files)
	x.mu.RUnlock()
	r.New = max(0, r.Live-(before-r.Deleted))
	return r, nil
}
