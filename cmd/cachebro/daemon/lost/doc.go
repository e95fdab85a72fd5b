// Package lost detects lost updates. In a lost update, a session was shown one version of a file,
// and somebody else wrote another. The session then replaced the file by a content that lacks that
// writer's lines. A version is examined after it is in the log, so that its writer need not wait.
//
// A write is a candidate if all of these hold:
//
//   - its session was shown an earlier content of the file
//   - somebody else wrote the file since
//   - it was not made by a client's edit tool, which replaces text that it found in the file
//   - it was not made by a process that read the file after the other's write (a formatter, sed)
//
// A three-way comparison of lines, as for a merge, decides whether a candidate is a loss. In a
// loss, the result lacks a line that others added and that the reader was not shown, or it contains
// a line that others had removed. Differences in blanks, quotes and commas do not count.
//
// If it is not known what a session has read, nothing is reported for it. The store's KV holds at
// most a thousand losses and candidates.
package lost
