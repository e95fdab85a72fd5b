package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cachebro/store/leaf/text"
)

// Methods of the search index, which the store daemon owns as well.
const (
	MSearch = "search" // SearchQuery → SearchAnswer
	MIndex  = "index"  // IndexRequest → StoreAnswer: stats, list, forget, reconcile, reindex, full, progress
)

// The modes of a search.
const (
	SearchText    = ""        // exact; if nothing is found, ranked; then similar file names
	SearchExact   = "exact"   // every matching line, ordered by path and line
	SearchRanked  = "ranked"  // natural language
	SearchSymbols = "symbols" // definitions by name
	SearchFiles   = "files"   // file names, fuzzily
	SearchHistory = "history" // text in older versions and deleted files
	SearchPrompt  = "prompt"  // the keywords of a person's prompt
	SearchID      = "id"      // only in answers, if the pattern was the id of a hit
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
	Body          bool     `json:"body,omitempty"`  // include the enclosing definition's text
	Session       string   `json:"session,omitempty"`
	Gone          bool     `json:"gone,omitempty"`          // when searching file names, include deleted files, with Past
	NoRefresh     bool     `json:"no_refresh,omitempty"`    // if nothing is mounted, do not look for changes first
	AllWorktrees  bool     `json:"all_worktrees,omitempty"` // include the files of linked worktrees inside the root
}

// SearchAnswer lists the hits, best first, or in order for SearchExact.
type SearchAnswer struct {
	Hits      []SearchHit `json:"hits"`
	Files     int         `json:"files"`              // number of files with a hit, including those beyond the limit
	Lines     int         `json:"lines"`              // number of hits, including those beyond the limit
	Truncated bool        `json:"truncated"`          // the limit cut the result
	AtLeast   bool        `json:"at_least,omitempty"` // Files and Lines count only the files that had to be read
	How       string      `json:"how"`                // exact, ranked, symbols, files, history
	Warning   string      `json:"warning,omitempty"`
	Suggest   []string    `json:"suggest,omitempty"` // did you mean
	Scanned   bool        `json:"scanned,omitempty"` // every file was read
	Looked    int         `json:"looked"`            // number of files, or versions, that were read
	// NotSearched counts and names the files in scope that were not searched.
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
	Source *Source   `json:"source,omitempty"`
	Past   *Past     `json:"past,omitempty"`
	Note   *Note     `json:"note,omitempty"`
	// At is roughly where in Text the match is. If the line is very long, Text is only the part
	// around the match, and Before bytes of the line's LineBytes come before it.
	At        int `json:"at,omitempty"`
	Before    int `json:"before,omitempty"`
	LineBytes int `json:"line_bytes,omitempty"`
}

// Around returns the part of the hit's line around the match, of about most bytes. It has an
// ellipsis where text is left out, and the line's length if the line is long.
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

// Source is the position of a hit in the index.
type Source struct {
	Type        string `json:"type"` // MDFileChunk, CodeChunk
	FilePath    string `json:"file_path"`
	ChunkIndex  int    `json:"chunk_index"`
	TotalChunks int    `json:"total_chunks"`
	StartLine   int    `json:"start_line"`
	EndLine     int    `json:"end_line"`
}

// Past describes when a text existed.
type Past struct {
	First    Version `json:"first"` // the version in which it first appeared
	Last     Version `json:"last"`
	Gone     Version `json:"gone"` // the version that removed it
	Versions int     `json:"versions"`
}

// IndexRequest names an operation in Do: stats, list, forget, reconcile, reindex, full, or
// progress, which reports on another such request.
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

// MOutline takes an OutlineRequest and returns an OutlineAnswer.
const MOutline = "outline"

// OutlineAnswer lists definitions in order. If the request has a Symbol, it lists only those
// with that name.
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

// IndexFacts are the facts in StoreAnswer.Facts after an IndexRequest.
type IndexFacts struct {
	Stats   json.RawMessage `json:"stats,omitempty"`
	Changed int             `json:"changed"`
	New     int             `json:"new"`
	Deleted int             `json:"deleted"`
	Live    int             `json:"live"`
	// Missing describes what a reindex could not index; "" if nothing is missing.
	Missing  string         `json:"missing,omitempty"`
	Progress *IndexProgress `json:"progress,omitempty"`
}

// IndexProgress is the progress of indexing, which first examines all files and then indexes
// the texts of changed ones.
type IndexProgress struct {
	Looking bool `json:"looking"`
	Looked  int  `json:"looked"` // files examined so far; their total is not known in advance
	Indexed int  `json:"indexed"`
	Of      int  `json:"of"` // files to index; 0: none are being indexed
}

// NearestBy returns "meaning" or "file name" if no line contains the text and the hits only
// resemble it in that respect. It returns "" if the hits match the query.
func (q SearchQuery) NearestBy(a SearchAnswer) string {
	if q.Mode != SearchText || len(a.Hits) == 0 {
		return ""
	}
	return map[string]string{SearchRanked: "meaning", SearchFiles: "file name"}[a.How]
}

// Counts returns a phrase with the number of hits and of files.
func (a SearchAnswer) Counts() string {
	least := ""
	if a.AtLeast {
		least = "at least "
	}
	return least + text.Count(a.Lines, "hit") + " in " + text.Count(a.Files, "file")
}
