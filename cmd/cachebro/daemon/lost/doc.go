// Package lost notices lost updates: a session was shown one version of a file, somebody
// else wrote another, and the session then replaced the file by a content without the
// other's lines. It stands between ingest and serve: it looks at each version that a
// session wrote once it is in the log, off the writer's path.
//
// A write is a candidate where its reader was shown the file before it, somebody else
// wrote since, and nothing says that the write was made from that: a client's own tool
// for edits replaces text that it found in the file, and a process that opened the file
// for reading after the other's write (a formatter, sed) has worked on what it read. A
// candidate becomes a loss by its lines, in three ways as a merge does it: some line that
// the others added, and that the reader was not told of, is not in the result, or one that
// they removed is back. What only differs in blanks, quotes and commas is no loss.
//
// Where reads are not known, nothing is said. The records are in the store's KV, a
// thousand of them at most.
package lost
