package find

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// hitIDs maps ids to the definitions that they identify. Ids of files and versions need no entry.
type hitIDs struct {
	known *cache.Cache[string, wire.SearchHit]
	mu    sync.Mutex         // guards used
	used  map[store.Path]int // how often hits in a file were fetched
}

const maxHitIDs = 5000

// fetched counts an access, for ranking.
func (t *hitIDs) fetched(p store.Path) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used == nil || len(t.used) >= maxHitIDs {
		t.used = map[store.Path]int{}
	}
	t.used[p]++
}

func (t *hitIDs) uses() map[store.Path]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.used)
}

var hitIDShape = regexp.MustCompile(`^(fil|sym|ver|ses|not)-([0-9a-f]{8})$`)

// fetch returns the text of the hit with this id. ok is false if there is none.
func (f *Finder) fetch(ctx context.Context, id string) (a wire.SearchAnswer, ok bool) {
	m := hitIDShape.FindStringSubmatch(id)
	if m == nil {
		return a, false
	}
	hit := wire.SearchHit{ID: id}
	switch m[1] {
	case "fil":
		p, found := f.Index.FileOf(id)
		if !found {
			return a, false
		}
		hit = fileHit(p, 1)
		hit.Title = string(p)
		hit.Line, hit.Last = 1, maxBody
		hit.Body = f.Index.Lines(p, 1, maxBody)
	case "sym":
		known, found := f.hitIDs.known.Get(id)
		if !found {
			return a, false
		}
		all, _, err := f.Index.Symbols(ctx, known.Symbol, search.Query{Path: string(known.Path)}, search.Hints{}, 0)
		if err != nil || len(all) == 0 {
			return a, false
		}
		s := all[0]
		hit = known
		hit.Line, hit.Last = s.Line, s.Last
		hit.Body = f.Index.Lines(s.Path, s.First, min(s.Last, s.First+maxBody-1))
	case "ses":
		var found bool
		hit, found = f.sessionText(id)
		if !found {
			return a, false
		}
		return wire.SearchAnswer{How: wire.SearchID, Hits: []wire.SearchHit{hit}, Files: 0, Lines: 1, Looked: 1}, true
	case "not":
		var found bool
		hit, found = f.noteText(id)
		if !found {
			return a, false
		}
		return wire.SearchAnswer{How: wire.SearchID, Hits: []wire.SearchHit{hit}, Lines: 1, Looked: 1}, true
	case "ver":
		n, _ := strconv.ParseUint(m[2], 16, 32)
		v, err := f.Store.Version(n)
		if err != nil {
			return a, false
		}
		if ignore.Secret(string(v.Path)) {
			return a, false
		}
		content, err := f.Store.Content(v.Blob)
		if err != nil {
			return a, false
		}
		content, ok := text.Shown(content)
		if !ok {
			return a, false
		}
		lines := strings.SplitAfter(string(content), "\n")
		hit.Type = "version"
		hit.Path = []byte(v.Path)
		hit.Title = fmt.Sprintf("%s version %d", v.Path, v.Seq)
		hit.Line = 1
		hit.Last, hit.Body = min(len(lines), maxBody), strings.Join(lines[:min(len(lines), maxBody)], "")
		hit.Time = onwire.Time(v.Time)
	}
	f.hitIDs.fetched(store.Path(hit.Path))
	return wire.SearchAnswer{How: wire.SearchID, Hits: []wire.SearchHit{hit}, Files: 1, Lines: 1, Looked: 1}, true
}

// searchPrompt answers a prompt with the hits for its keywords.
func (f *Finder) searchPrompt(ctx context.Context, q wire.SearchQuery, sq search.Query, h search.Hints, limit int, a *wire.SearchAnswer) error {
	words := search.Keywords(q.Pattern, 8)
	if len(words) == 0 {
		return nil
	}
	q.Pattern, h.WordsOnly = strings.Join(words, " "), true // words only is faster, and the user waits for the prompt
	err := f.searchRanked(ctx, q, sq, h, limit, a)
	f.addNotes(q, sq, limit, a)
	if err != nil {
		return err
	}
	return f.addSessions(q.Session, limit, a)
}
