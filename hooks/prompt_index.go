package hooks

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// The compact index at a prompt is off by default, because it costs tokens at every prompt and is
// often irrelevant. It lists files that match the prompt's words, then recently touched ones.
const (
	indexBudget   = 2000 // characters, including the first and last line
	indexItems    = 40   // at most
	indexKeywords = 8
	searchWithin  = 120 * time.Millisecond
	indexSince    = 7 * 24 * time.Hour // files touched earlier are not listed
)

const (
	indexHead = "--- cachebro context (compact index, %d items; may be irrelevant) ---\nFull text of any ID: search or read_file.\n\n"
	indexEnd  = "--- end cachebro context ---"
	indexLine = "  [%-8s] %-16s | %-40s | %-8s | %s | %s\n"
)

// indexItem is one line of the compact index.
type indexItem struct {
	id, kind, title string
	path            string
	last            time.Time
	score           float64
}

// promptIndex returns the index for a prompt, or "" if it is empty: search results for the prompt's
// words, then recently touched files.
func (c *call) promptIndex(ctx context.Context) string {
	now := c.env.Now()
	words := keywords(c.text)
	seen := map[string]bool{}
	var touched []indexItem
	for _, q := range []wire.WorkingSetQuery{{Session: c.session, Limit: 200}, {Since: now.Add(-indexSince), Limit: 400}} {
		var w wire.WorkingSet
		if _, err := c.ask(ctx, wire.MWorkingSet, q, nil, &w); err != nil {
			break
		}
		for _, f := range w.Files {
			it := indexItem{id: itemID(string(f.Path)), kind: "file", title: title(string(f.Path)), path: string(f.Path), last: f.Last}
			if f.Deleted || seen[it.path] || c.hidden(it.path) {
				continue
			}
			seen[it.path] = true
			it.score = relevance(it, words, now)
			touched = append(touched, it)
		}
	}
	sort.Slice(touched, func(i, j int) bool {
		if touched[i].score != touched[j].score {
			return touched[i].score > touched[j].score
		}
		return touched[i].path < touched[j].path
	})
	items := c.searchPrompt(ctx)
	for _, it := range items {
		if it.kind == "note" {
			continue // a note about the file is not a hit of the file itself
		}
		touched = slices.DeleteFunc(touched, func(t indexItem) bool { return t.path == it.path })
	}
	return indexText(append(items, touched...), filepath.Base(c.root), now.Location())
}

// searchPrompt returns search results, or nil if there is no search index.
func (c *call) searchPrompt(ctx context.Context) []indexItem {
	words := keywords(c.text)
	if len(words) == 0 {
		return nil
	}
	var a wire.SearchAnswer
	q := wire.SearchQuery{Pattern: strings.Join(words, " "), Mode: wire.SearchPrompt, Limit: indexItems, Session: c.session, NoRefresh: true}
	// ask is not used here, because after a timeout it opens the circuit breaker and marks the
	// event as lost. A slow search must not cause either.
	ctx, cancel := context.WithTimeout(ctx, searchWithin)
	defer cancel()
	if _, err := c.client.Call(ctx, wire.MSearch, q, nil, &a); err != nil {
		return nil
	}
	var items []indexItem
	for _, h := range a.Hits {
		name := h.Title
		if h.Type == "file" || name == "" {
			name = string(h.Path)
			if h.Line > 0 {
				name = fmt.Sprintf("%s:%d", name, h.Line)
			}
		}
		if h.ID != "" && !c.hidden(string(h.Path)) {
			items = append(items, indexItem{id: clean(h.ID), kind: clean(h.Type), title: title(name), path: string(h.Path), last: h.Time, score: h.Score})
		}
	}
	return items
}

func (c *scene) hidden(path string) bool { return c.env.Secret != nil && c.env.Secret(path) }

// relevance scores a file by the keywords in its path and, a little, by how recently it was
// touched.
func relevance(it indexItem, words []string, now time.Time) float64 {
	name, n := strings.ToLower(it.path), 0
	for _, w := range words {
		if strings.Contains(name, w) {
			n++
		}
	}
	age := max(now.Sub(it.last), 0)
	recent := 1 - float64(min(age, indexSince))/float64(indexSince)
	if len(words) == 0 {
		return recent
	}
	return 0.8*float64(n)/float64(len(words)) + 0.2*recent
}

// indexText formats as many items as the budget holds.
func indexText(items []indexItem, project string, loc *time.Location) string {
	header := "[type]     ID               | Title                                    | Project  | Date       | Score\n"
	project = cutText(clean(project), 8)
	// The number of items is known only at the end; allow for three digits.
	room := indexBudget - len(fmt.Sprintf(indexHead, 999)) - len(header) - len(indexEnd)
	var b strings.Builder
	n := 0
	for _, it := range items {
		line := fmt.Sprintf(indexLine, it.kind, it.id, it.title, project, day(it.last, loc), fmt.Sprintf("%.2f", it.score))
		if w := utf16Len(line); n == indexItems || w > room {
			break
		} else {
			room -= w
		}
		b.WriteString(line)
		n++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(indexHead, n) + header + b.String() + indexEnd
}

// day formats the day of a time, or "-" if it is unknown.
func day(t time.Time, loc *time.Location) string {
	if t.IsZero() {
		return fmt.Sprintf("%-10s", "-")
	}
	return t.In(loc).Format("2006-01-02")
}

// itemID returns the id of a file: eight hex digits, which search prints and read_file accepts.
func itemID(p string) string { return "fil-" + text.Hash([]byte(p))[:8] }

// title shortens a path to its last 40 characters, the most informative ones.
func title(p string) string {
	r := []rune(clean(p))
	if len(r) <= 40 {
		return string(r)
	}
	if base := []rune(clean(path.Base(p))); len(base) >= 39 {
		return "…" + string(base[len(base)-39:])
	}
	return "…" + string(r[len(r)-39:])
}

func utf16Len(s string) (n int) {
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// stopWords never count as keywords.
const stopWords = " the and for with that this from have has are was were you your can could please should would will into onto out not but all any how why what when where which who does did add make use using used get got let its our them then than there their these those also just like need want file files code "

// keywords returns at most eight words of a prompt, in order and in lower case. A keyword has three
// or more letters and digits and is not a stop word.
func keywords(prompt string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(cutText(prompt, 20_000)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len([]rune(w)) < 3 || strings.Contains(stopWords, " "+w+" ") || seen[w] {
			continue
		}
		seen[w] = true
		out = append(out, w)
		if len(out) == indexKeywords {
			break
		}
	}
	return out
}
