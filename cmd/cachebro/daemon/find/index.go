package find

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (f *Finder) outline(ctx context.Context, q wire.OutlineRequest) (wire.OutlineAnswer, []byte, error) {
	p, err := f.Paths.Clean(q.Path)
	if err != nil {
		return wire.OutlineAnswer{}, nil, err
	}
	l, err := f.Survey.Look(ctx, p)
	if err != nil {
		return wire.OutlineAnswer{}, nil, err
	}
	content, err := l.Content()
	if err != nil {
		return wire.OutlineAnswer{}, nil, onwire.Error(err)
	}
	a := wire.OutlineAnswer{Symbols: []wire.OutlineSymbol{}, Lines: strings.Count(string(content), "\n")}
	owner, name, qualified := strings.Cut(q.Symbol, ".")
	if !qualified {
		name = q.Symbol
	}
	for _, s := range search.Outline(string(p), content) {
		otherName := q.Symbol != "" && s.Name != name && s.Name != q.Symbol
		otherOwner := qualified && s.Name == name && !strings.Contains(s.Signature, owner)
		if otherName || otherOwner {
			if q.Symbol != "" && strings.Contains(strings.ToLower(s.Name), strings.ToLower(name)) {
				a.Near = append(a.Near, s.Name)
			}
			continue
		}
		a.Symbols = append(a.Symbols, wire.OutlineSymbol{Name: s.Name, Kind: s.Kind, Signature: s.Signature, First: s.First, Last: s.Last})
	}
	return a, nil, nil
}

func (f *Finder) indexRequest(ctx context.Context, q wire.IndexRequest) (wire.StoreAnswer, []byte, error) {
	p, err := f.Paths.Clean(q.Path)
	if err != nil {
		return wire.StoreAnswer{}, nil, err
	}
	var facts wire.IndexFacts
	began := time.Now()
	switch q.Do {
	case "stats":
		st := f.Index.Stats()
		facts.Stats, _ = json.Marshal(st)
		return storeAnswer(indexText(st), facts)
	case "list":
		var b strings.Builder
		n := 0
		f.Index.List(p, func(p store.Path, indexed bool, chunks int, seq uint64) {
			if n++; q.Limit <= 0 || n <= q.Limit {
				state := text.Count(chunks, "chunk")
				if !indexed {
					state = "not indexed, scanned by every query"
				}
				fmt.Fprintf(&b, "%s  %d  %s\n", onwire.Display(p), seq, state)
			}
		})
		facts.Live = n
		return storeAnswer(strings.TrimSuffix(b.String(), "\n"), facts)
	case "progress":
		facts.Progress = f.indexProgress()
		return storeAnswer("", facts)
	case "forget", "reconcile", "reindex", "full":
		if err := f.reindex(ctx, q.Do, p, &facts); err != nil {
			return wire.StoreAnswer{}, nil, err
		}
	default:
		return wire.StoreAnswer{}, nil, wire.Errorf(wire.ErrBadRequest, "stats, list, forget, reconcile, reindex, full, progress", "unknown request %q", q.Do)
	}
	text := fmt.Sprintf("%d changed, %d new, %d deleted, %d live in %s", facts.Changed, facts.New, facts.Deleted, facts.Live, time.Since(began).Round(time.Millisecond))
	if facts.Missing != "" {
		text += "; " + facts.Missing
	}
	return storeAnswer(text, facts)
}

func storeAnswer(text string, facts any) (wire.StoreAnswer, []byte, error) {
	raw, err := json.Marshal(facts)
	return wire.StoreAnswer{Text: text, OK: true, Facts: raw}, nil, err
}

func indexText(st search.Stats) string {
	state := "ready"
	if !st.Ready {
		state = "being made"
	}
	if st.Problem != "" {
		state = st.Problem
	}
	return fmt.Sprintf("%s: %d files, %d indexed in %d chunks, %d words, %.1f MB of text, %.1f MB on disk, %d versions behind",
		state, st.Files, st.Indexed, st.Chunks, st.Words, float64(st.Bytes)/1e6, float64(st.DiskBytes)/1e6, st.Lag)
}

// Status returns the index's part of status.
func (f *Finder) Status() map[string]any {
	st := f.Index.Stats()
	var m map[string]any
	raw, _ := json.Marshal(st)
	_ = json.Unmarshal(raw, &m)
	m["text"] = indexText(st)
	return m
}

// IndexDir returns the directory of the index in a state directory.
func IndexDir(state string) string { return filepath.Join(state, "index") }
