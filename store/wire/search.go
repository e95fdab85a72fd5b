package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cachebro/store/leaf/text"
)

// Methods of the search index, which the store daemon owns too.
const (
	MSearch = "search" // SearchQuery → SearchAnswer
	MIndex  = "index"  // IndexRequest → StoreAnswer: stats, list, forget, reconcile, reindex, full, progress
)

// The modes of a search.
const (
	SearchText    = ""        // exact; nothing found: ranked, then names like it
	SearchExact   = "exact"   // every matching line, ordered by path and line
	SearchRanked  = "ranked"  // natural language
	SearchSymbols = "symbols" // definitions by name
	SearchFiles   = "files"   // file names, fuzzily
	SearchHistory = "history" // text that is in older versions and deleted files
	SearchPrompt  = "prompt"  // the keywords of a person's prompt
	SearchID      = "id"      // an answer's: the pattern was the id of a hit
)

// SearchQuery asks the index. Patterns are literal text unless Regex.
type SearchQuery struct {
	Pattern       string   `json:"pattern"`
	Mode          string   `json:"mode,omitempty"`
	Regex         bool     `json:"regex,omitempty"`
	CaseSensitive bool     `json:"case_sensitive,omitempty"`
	Path          []byte   `json:"path,omitempty"`
	Include       []string `json:"include,omitempty"`
	Exclude       []string `json:"exclude,omitempty"`
	Kind          string   `json:"kind,omitempty"`  // code, doc, config, test, other, note
	Limit         int      `json:"limit,omitempty"` // 0: 20; < 0: none
	Body          bool     `json:"body,omitempty"`  // with the enclosing definition's text
	Session       string   `json:"session,omitempty"`
	Gone          bool     `json:"gone,omitempty"`          // of file names: also those that are gone, with Past
	NoRefresh     bool     `json:"no_refresh,omitempty"`    // not mounted: do not look for changes first
	AllWorktrees  bool     `json:"all_worktrees,omitempty"` // with the files of linked worktrees inside the root
}

// SearchAnswer is what was found, best first (SearchExact: in order).
type SearchAnswer struct {
	Hits      []SearchHit `json:"hits"`
	Files     int         `json:"files"`              // with a hit, those beyond the limit included
	Lines     int         `json:"lines"`              // hits, those beyond the limit included
	Truncated bool        `json:"truncated"`          // the limit cut it
	AtLeast   bool        `json:"at_least,omitempty"` // Files and Lines are of the files that were read: that was enough
	How       string      `json:"how"`                // exact, ranked, symbols, files, history
	Warning   string      `json:"warning,omitempty"`
	Suggest   []string    `json:"suggest,omitempty"` // did you mean
	Scanned   bool        `json:"scanned,omitempty"` // every file was read
	Looked    int         `json:"looked"`            // files, or versions, that were read
	// NotSearched counts and names the files of the scope that were not looked into.
	NotSearched string `json:"not_searched,omitempty"`
}

// SearchHit is a line, a file, a definition or a version.
type SearchHit struct {
	ID     string    `json:"id"`   // fil-, sym-, ver-, ses- or not- and 8 hex digits
	Type   string    `json:"type"` // file, symbol, version, session, note
	Path   []byte    `json:"path"`
	Line   int       `json:"line,omitempty"`
	Last   int       `json:"last_line,omitempty"` // of a chunk or definition
	Text   string    `json:"text"`
	Title  string    `json:"title"`
	Score  float64   `json:"score"`
	Time   time.Time `json:"time,omitzero"`
	Symbol string    `json:"symbol,omitempty"` // name of the enclosing definition
	Body   string    `json:"body,omitempty"`
	Source *Source   `json:"source,omitempty"`
	Past   *Past     `json:"past,omitempty"`
	Note   *Note     `json:"note,omitempty"`
	// At is about where in Text the match is. Of a very long line Text is only the part
	// around it: Before bytes of LineBytes come before it.
	At        int `json:"at,omitempty"`
	Before    int `json:"before,omitempty"`
	LineBytes int `json:"line_bytes,omitempty"`
}

// Around returns at most about most bytes of the hit's line, with the match, an ellipsis
// where something is left out, and the line's length where that is long.
func (h SearchHit) Around(most int) string {
	line := strings.TrimRight(h.Text, "\r")
	size := max(h.LineBytes, len(line))
	if size <= most {
		return line
	}
	from := 0
	if h.Before > 0 || h.At > most*3/4 {
		from = max(0, min(h.At-most/2, len(line)-most))
	}
	end := min(len(line), from+most)
	out := strings.ToValidUTF8(line[from:end], "")
	if h.Before+from > 0 {
		out = "…" + out
	}
	if h.Before+end < size {
		out += "…"
	}
	return fmt.Sprintf("%s [bytes %d-%d of %d]", out, h.Before+from, h.Before+end, size)
}

// Source is where in the index a hit stands.
type Source struct {
	Type        string `json:"type"` // MDFileChunk, CodeChunk
	FilePath    string `json:"file_path"`
	ChunkIndex  int    `json:"chunk_index"`
	TotalChunks int    `json:"total_chunks"`
	StartLine   int    `json:"start_line"`
	EndLine     int    `json:"end_line"`
}

// Past says when a text was there.
type Past struct {
	First    Version `json:"first"` // the version it was first seen in
	Last     Version `json:"last"`
	Gone     Version `json:"gone"` // the one that took it away
	Versions int     `json:"versions"`
}

// IndexRequest: Do is stats, list, forget, reconcile, reindex, full, or progress
// of what another request of them does.
type IndexRequest struct {
	Do    string `json:"do"`
	Path  []byte `json:"path,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// OutlineRequest asks for the definitions of a file, or for one of them.
type OutlineRequest struct {
	Path   []byte `json:"path"`
	Symbol string `json:"symbol,omitempty"`
}

// MOutline is OutlineRequest → OutlineAnswer.
const MOutline = "outline"

// OutlineAnswer lists definitions in order; with Symbol, those of that name.
type OutlineAnswer struct {
	Symbols []OutlineSymbol `json:"symbols"`
	Lines   int             `json:"lines"` // of the file
	Near    []string        `json:"near,omitempty"`
}

// OutlineSymbol is one definition.
type OutlineSymbol struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Signature string `json:"signature"`
	First     int    `json:"first"`
	Last      int    `json:"last"`
}

// IndexFacts are what an IndexRequest answers in StoreAnswer.Facts.
type IndexFacts struct {
	Stats   json.RawMessage `json:"stats,omitempty"`
	Changed int             `json:"changed"`
	New     int             `json:"new"`
	Deleted int             `json:"deleted"`
	Live    int             `json:"live"`
	// Missing says what a reindex could not bring in; "": everything is in.
	Missing  string         `json:"missing,omitempty"`
	Progress *IndexProgress `json:"progress,omitempty"`
}

// IndexProgress is how far the index is: first the files are looked at, then the
// texts of those that changed are indexed.
type IndexProgress struct {
	Looking bool `json:"looking"`
	Looked  int  `json:"looked"` // files so far; how many there are is not known before
	Indexed int  `json:"indexed"`
	Of      int  `json:"of"` // files to index; 0: none are being indexed
}

// NearestBy says by what the hits of an answer are near to a text that no line has:
// "meaning" or "file name"; "" where they are what was asked for.
func (q SearchQuery) NearestBy(a SearchAnswer) string {
	if q.Mode != SearchText || len(a.Hits) == 0 {
		return ""
	}
	return map[string]string{SearchRanked: "meaning", SearchFiles: "file name"}[a.How]
}

// Counts says how many hits there are in how many files.
func (a SearchAnswer) Counts() string {
	least := ""
	if a.AtLeast {
		least = "at least "
	}
	return least + text.Count(a.Lines, "hit") + " in " + text.Count(a.Files, "file")
}
