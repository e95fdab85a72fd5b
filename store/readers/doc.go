// Package readers decides what a reader gets when it reads a file: the full text, a diff
// against what it was shown before, or one line saying that nothing changed. It is the last
// stage of observe → version → index → serve, and enforces law 3: a stub or a diff goes only
// to a reader that was shown exactly those bytes of exactly those lines. In any doubt the
// answer is full text.
//
// What one context window holds is a list of pieces. A piece is (content hash, rendering,
// line interval), with the tool calls whose results it rests on, the time its text was
// delivered, and how many tokens had been delivered by then. A piece is
//   - fresh, if the lines themselves were delivered;
//   - derived, if a diff or a stub was delivered to a reader that held its base. It is as old
//     as the base, because it is useless once the base has left the window.
//
// Two rules keep stubs true. First, a reader holds a range only if unexpired pieces of one
// hash cover it. Second, the reader must not have learned of another content since then.
// Otherwise it no longer believes the older text, even if the file has changed back to it
// (A→B→A).
//
// Deliveries that a client confirms later (tool_use_id) are pending. They count once a commit
// contains exactly the decided text. Until then the file is in doubt.
//
// The state is in memory. Close writes it to the KV and New reads it back, however long the
// process was away. An idle process exits. The next hook then starts one, or leaves a mark
// that makes the session's readers start with empty state. Bases expire meanwhile as usual.
// After a crash nothing is read back. Lost state costs tokens, but never makes an answer
// false.
//
// Locks: Tracker.mu guards the table of sessions, reader.mu one reader, accounts.mu the
// counts; caches have their own locks. Order: Tracker.mu, reader.mu; the others are leaves.
// No lock is held while content is fetched, rendered or compared. A decision works on a
// snapshot and is repeated if something was delivered to the reader meanwhile.
package readers
