// Package search keeps a full-text index of a project's tracked text files and answers exact and
// ranked queries.
//
// # Documents
//
// A file has one bleve document for its words and one for each chunk. A chunk consists of whole
// lines. In Markdown and other prose it has up to 200 words. In code it has about 60 lines, and
// ends before a top-level symbol if possible. The id of a chunk is "path NUL first-last", so
// nothing else is stored for a chunk except its postings. For the fields see
// documents.go.
//
// # Exact queries
//
// A literal or a regular expression is reduced to the words that every match must contain
// (query.go). The word dictionary, one block in memory, gives the terms that contain these words
// (terms.go). The postings of these terms give candidate files, and each candidate is read and
// verified line by line (grep.go). Files that changed since they were indexed are always
// candidates. So a stale or damaged index only costs time.
//
// # Freshness
//
// The index follows the version log from its own checkpoint, which is written in one batch with the
// documents (follow.go). The index may be deleted at any time. It is rebuilt when mappingVersion
// changes. A deleted file's documents stay for an hour, in case the file is restored (removed.go).
//
// # Locks
//
// The only writer holds Index.write, even during disk access. Index.mu guards the file table and
// the dictionary. It is taken after Index.write and never held during disk access.
package search
