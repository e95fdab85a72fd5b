// Package lost notices lost updates: a session was shown one version of a file, somebody
// else wrote another, and the session then replaced the file by a content without the
// other's lines. It looks at each version that a session wrote once it is in the log, so
// the writer does not wait for it.
//
// A write is a candidate if its reader was shown the file before it, somebody else wrote
// since, and nothing says that the write took this into account: a client's own tool for
// edits replaces text that it found in the file, and a process that opened the file for
// reading after the other's write (a formatter, sed) has worked on what it read. Whether a
// candidate is a loss is decided by its lines, in a three-way comparison as for a merge: some
// line that the others added, and that the reader was not told of, is not in the result, or
// one that they removed is back. Differences in blanks, quotes and commas are no loss.
//
// If reads are not known, nothing is reported. The records are in the store's KV, a thousand
// of them at most.
package lost
