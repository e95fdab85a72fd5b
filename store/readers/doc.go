// Package readers decides what a reader gets when it reads a file: the full text, a diff against
// what it was shown before, or one line saying that nothing changed. It enforces law 3 of
// doc/architecture.md: a stub or a diff goes only to a reader that was shown exactly those bytes of
// exactly those lines. In any doubt the answer is full text.
//
// The state of a context window is a list of pieces, which are the lines that it holds. A piece
// consists of a content hash, a rendering and a line interval. It also holds the tool calls that
// delivered it, the time of delivery, and the number of tokens delivered before. A piece is
//   - fresh, if the lines themselves were delivered;
//   - derived, if a diff or a stub was delivered to a reader that held its base. It is as old as
//     the base, because it is useless once the base has left the window.
//
// Two rules keep stubs true. First, a reader holds a range only if unexpired pieces of one hash
// cover it. Second, the reader must not have learned of another content since it received these
// pieces. Otherwise it no longer believes the older text, even if the file has changed back
// (A→B→A).
//
// Deliveries that a client confirms later (tool_use_id) are pending. They count once a Commit
// contains exactly the decided text. Until then the file is in doubt.
//
// The state is in memory. Close writes it to the KV and New reads it back. An idle process exits.
// The next hook then starts another one, or leaves a mark that makes the session's readers start
// with empty state. Bases expire meanwhile as usual. After a crash nothing is read back. Lost state
// costs tokens, but never makes an answer false.
//
// # Locks
//
// Tracker.mu guards the table of sessions, reader.mu one reader, and accounts.mu the counts. Caches
// have their own locks. Tracker.mu is taken before reader.mu; the others are leaf locks. No lock is
// held while content is fetched, rendered or compared. A decision works on a snapshot and is
// repeated if the reader received something meanwhile.
package readers
