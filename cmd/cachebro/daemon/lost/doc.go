// Package lost detects lost updates. In a lost update, a session was shown one version of a
// file, somebody else wrote another, and the session then replaced the file by a content
// without the other's lines. The package looks at each version that a session wrote once the
// version is in the log, so the writer does not wait for it.
//
// A write is a candidate if its reader was shown the file before it, somebody else wrote
// since, and nothing shows that the write took the other's change into account. Two kinds of
// write are known to do that: a client's own tool for edits replaces text that it found in the
// file, and a process that opened the file for reading after the other's write (a formatter,
// sed) has worked on what it read. Whether a candidate is a loss is decided by its lines, in a
// three-way comparison as for a merge: a line that others added, and that the reader did not
// learn of, is missing in the result, or a line that others removed is back. Differences in
// blanks, quotes and commas are not a loss.
//
// If reads are not known, nothing is reported. The records are in the store's KV, at most a
// thousand of them.
package lost
