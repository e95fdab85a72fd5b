package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cachebro/store/leaf/text"
)

// Methods of the search index.
const (
	MSearch = "search" // SearchQuery → SearchAnswer
	MIndex  = "index"  // IndexRequest → StoreAnswer: stats, list, forget, reconcile, reindex, full, progress
)

// The modes of a search.
const (
	SearchText    = ""        // exact; if nothing matches, ranked; then similar file names
	SearchExact   = "exact"   // every matching line, ordered by path and line
	SearchRanked  = "ranked"  // natural language
	SearchSymbols = "symbols" // definitions by name
	SearchFiles   = "files"   // file names, fuzzy
	SearchHistory = "history" // text in older versions and deleted files
	SearchPrompt  = "prompt"  // the keywords of a person's prompt
	SearchID      = "id"      // only in answers: the pattern was the ID of a hit
)

// SearchQuery asks the index. Patterns are literal text unless Regex is set.
type SearchQuery struct {
	Pattern       string   `json:"pattern"`
	Mode          string   `json:"mode,omitempty"`
	Regex         bool     `json:"regex,omitempty"`
	CaseSensitive bool     `json:"case_sensitive,omitempty"`
	Path          []byte   `json:"path,omitempty"`
	Include       []string `json:"include,omitempty"`
	Exclude       []string `json:"exclude,omitempty"`
	Kind          string   `json:"kind,omitempty"`  // code, doc, config, test, other, note
	Limit         int      `json:"limit,omitempty"` // 0: 20; < 0: no limit
	Body          bool     `json:"body,omitempty"`  // include the text of the enclosing definition
	Session       string   `json:"session,omitempty"`
	Gone          bool     `json:"gone,omitempty"`          // for file names: include deleted files, with Past
	NoRefresh     bool     `json:"no_refresh,omitempty"`    // do not look for changes first if nothing is mounted
	AllWorktrees  bool     `json:"all_worktrees,omitempty"` // include the files of linked worktrees inside the root
}

// SearchAnswer lists the hits, best first, or in order for SearchExact.
type SearchAnswer struct {
	Hits      []SearchHit `json:"hits"`
	Files     int         `json:"files"`              // number of files with a hit, also beyond the limit
	Lines     int         `json:"lines"`              // number of hits, also beyond the limit
	Truncated bool        `json:"truncated"`          // the limit cut the result
	AtLeast   bool        `json:"at_least,omitempty"` // not all files were read, so Files and Lines are lower bounds
	How       string      `json:"how"`                // exact, ranked, symbols, files, history
	Warning   string      `json:"warning,omitempty"`
	Suggest   []string    `json:"suggest,omitempty"` // similar terms: "did you mean"
	Looked    int         `json:"looked"`            // number of files or versions that were read
	// NotSearched describes the files in scope that were not searched, with their number.
	NotSearched string `json:"not_searched,omitempty"`
}

// SearchHit is a line, a file, a definition or a version.
type SearchHit struct {
	ID     string    `json:"id"`   // fil-, sym-, ver-, ses- or not- and 8 hex digits
	Type   string    `json:"type"` // file, symbol, version, session, note
	Path   []byte    `json:"path"`
	Line   int       `json:"line,omitempty"`
	Last   int       `json:"last_line,omitempty"` // last line of a chunk or definition
	Text   string    `json:"text"`
	Title  string    `json:"title"`
	Score  float64   `json:"score"`
	Time   time.Time `json:"time,omitzero"`
	Symbol string    `json:"symbol,omitempty"` // name of the enclosing definition
	Body   string    `json:"body,omitempty"`
	Past   *Past     `json:"past,omitempty"`
	Note   *Note     `json:"note,omitempty"`
	// At is the approximate position of the match in Text. If the line is very long, Text is only
	// the part around the match. Before is then the number of bytes before Text, out of the line's
	// LineBytes.
	At        int `json:"at,omitempty"`
	Before    int `json:"before,omitempty"`
	LineBytes int `json:"line_bytes,omitempty"`
}

// Around returns the part of the hit's line around the match. most is its approximate length in
// bytes. An ellipsis marks omitted text, and the length of a long line is added.
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

// Past describes when a text existed.
type Past struct {
	First    Version `json:"first"` // the version that introduced the text
	Last     Version `json:"last"`
	Gone     Version `json:"gone"` // the version that removed the text
	Versions int     `json:"versions"`
}

// IndexRequest names an operation in Do: stats, list, forget, reconcile, reindex, full or progress.
// progress reports on another request that is running.
type IndexRequest struct {
	Do    string `json:"do"`
	Path  []byte `json:"path,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// OutlineRequest asks for the definitions of a file, or only for those named Symbol.
type OutlineRequest struct {
	Path   []byte `json:"path"`
	Symbol string `json:"symbol,omitempty"`
}

// MOutline takes an OutlineRequest and returns an OutlineAnswer.
const MOutline = "outline"

// OutlineAnswer lists the definitions in the order of the file.
type OutlineAnswer struct {
	Symbols []OutlineSymbol `json:"symbols"`
	Lines   int             `json:"lines"` // number of lines of the file
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

// IndexFacts are the facts in StoreAnswer.Facts after an IndexRequest.
type IndexFacts struct {
	Stats   json.RawMessage `json:"stats,omitempty"`
	Changed int             `json:"changed"`
	New     int             `json:"new"`
	Deleted int             `json:"deleted"`
	Live    int             `json:"live"`
	// Missing describes what a reindex could not index; "" means nothing.
	Missing  string         `json:"missing,omitempty"`
	Progress *IndexProgress `json:"progress,omitempty"`
}

// IndexProgress is the progress of indexing. Indexing first examines all files and then indexes the
// changed ones.
type IndexProgress struct {
	Looking bool `json:"looking"`
	Looked  int  `json:"looked"` // files examined so far; the total is unknown
	Indexed int  `json:"indexed"`
	Of      int  `json:"of"` // files to index; 0: indexing has not begun
}

// NearestBy returns "meaning" or "file name" if no line contains the text and the hits only
// resemble it in this respect. It returns "" for hits that match.
func (q SearchQuery) NearestBy(a SearchAnswer) string {
	if q.Mode != SearchText || len(a.Hits) == 0 {
		return ""
	}
	return map[string]string{SearchRanked: "meaning", SearchFiles: "file name"}[a.How]
}

// Counts returns a phrase with the numbers of hits and files.
func (a SearchAnswer) Counts() string {
	least := ""
	if a.AtLeast {
		least = "at least "
	}
	return least + text.Count(a.Lines, "hit") + " in " + text.Count(a.Files, "file")
}
