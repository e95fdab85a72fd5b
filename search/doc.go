// Package search keeps a full-text index of a project's tracked text files and answers
// exact and ranked queries. It is the third stage of observe → version → index → serve.
//
// # Documents
//
// A file has one bleve document for its words and one for each chunk: markdown and
// other prose in windows of about 200 words, code by top-level symbol or about 60
// lines, always whole lines. The id of a chunk is "path NUL first-last NUL
// index/total", so nothing has to be stored in addition to its postings. For the
// fields see documents.go.
//
// # Exact queries
//
// A literal or a regular expression is reduced to the words that every match
// must contain (query.go). The word dictionary, held in memory as one block,
// gives the terms that contain these words (terms.go); the postings of those terms
// give candidate files; and each candidate is read again and verified line by
// line (grep.go). So the index never decides what a line says: a stale or damaged
// index only costs time, because files that changed since they were indexed are
// always candidates.
//
// # Freshness
//
// The index follows the version log from its own checkpoint, which is written
// in the same batch as the documents (follow.go). It may be deleted at any
// time. It is rebuilt when mappingVersion changes. The documents of a deleted file
// stay for an hour, in case the file comes back (removed.go).
//
// # Locks
//
// The one writer holds Index.write, also during disk access. Index.mu, taken after it,
// guards the file table and the dictionary and is never held during disk access.
package search
