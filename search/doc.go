// Package search keeps a full-text index of a project's tracked text files and
// answers exact and ranked queries: the third station of observe → version →
// index → serve.
//
// # Documents
//
// A bleve document is a chunk of a file: markdown and other prose in windows
// of about 200 words, code by top-level symbol or about 60 lines, always whole
// lines. Its id is "path NUL first-last NUL index/total", so nothing needs to
// be stored beside the postings. Fields: word (folded identifiers as they
// stand in the text), part (their camelCase and snake_case parts, and stemmed
// prose), sym (names defined in the chunk), dir, kind, file.
//
// # Exact queries
//
// A literal or a regular expression is reduced to the words that every match
// must contain (query.go). The word dictionary, held in memory as one block,
// gives the terms that contain them (terms.go); the postings of those terms
// give candidate files; and each candidate is read again and verified line by
// line (grep.go). The index therefore never decides what a line says: the
// worst that a stale or damaged index can do is to cost time, because files
// that changed since they were indexed are always candidates.
//
// # Freshness
//
// The index follows the version log from its own checkpoint, which is written
// in the same batch as the documents (follow.go). It may be deleted at any
// time. A change of the mapping's version rebuilds it. The documents of a deleted file
// stay for an hour, in case it comes back (removed.go).
//
// # Locks
//
// Index.write is held by the one writer, over disk; Index.mu, taken after it,
// guards the file table and the dictionary and is never held over disk.
package search
