// Package content stores the contents of versions under their hashes: plain, compressed,
// as deltas, and finally packed into files that the stores of sibling worktrees share.
//
// It knows nothing of the log. The caller supplies functions that list what refers to a
// content and which paths it had (Log, Sweep). What is stored becomes visible when the
// log commits (Batch).
//
// # Pack files
//
// Beside the database, in packs/, lie the files that repacks wrote (see
// packfile.go). A sealed one never changes, so the stores of sibling worktrees
// share it by hard links: a new store adopts its siblings' files before its first
// scan and refers to what is in them instead of storing it again (Adopt); what
// several stored without knowing of each other is brought together by EndOffers.
// No store asks another, waits for it or depends on its life: the link keeps the
// bytes. A file goes when no frame of this store is in it; what was being made or
// adopted when a process was killed goes at the next Open.
package content
