// Package readers decides what a reader gets when it reads a file: the full
// text, a diff against what it was shown before, or one line that says nothing
// changed. It is the serve end of observe → version → index → serve, and the
// place where law 3 is kept: a stub or a diff goes only to a reader that was
// shown exactly those bytes of exactly those lines; any doubt is full text.
//
// What one context window holds is a list of pieces: (content hash, rendering,
// line interval), with the tool calls whose results it rests on, when the text
// was delivered and how many tokens came after it. A piece is made
//   - fresh, when lines were delivered as they are;
//   - derived, when a diff or a stub was delivered to a reader that held its
//     base: it is as old as the base, because it is only as good as the base
//     is still in the window.
//
// Two rules make stubs true. A range is held if unexpired pieces of one hash
// cover it. And nothing else may have been told since: if the reader was told
// of another content of that file after the text was delivered, the older text
// is not what it believes, even when the file is back to it (A→B→A).
//
// Deliveries that a client confirms later (tool_use_id) are pending: they count
// when a commit brings exactly the text that was decided, and until then as a
// doubt about the file.
//
// The state is memory. Close writes it to the KV and New takes it back, however long
// the process was away: it ends when a person thinks, and a hook that meets none starts
// it, or leaves a mark by which the session's readers begin anew. Bases expire meanwhile
// as ever. After a crash nothing is taken back. Losing it costs tokens, never truth.
//
// Locks: Tracker.mu guards the table of sessions; reader.mu one reader;
// accounts.mu the counts; caches have their own. Order: Tracker.mu, reader.mu; the
// others are leaves. None is held while content is fetched, rendered or
// compared; a decision works on a snapshot and is repeated when the reader was
// told something meanwhile.
package readers
