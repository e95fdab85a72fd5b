// Package docsync says which documents may be out of date: it pairs documents with the
// code that they describe, remembers what the code was when they last agreed, and
// compares. In observe → version → index → serve it follows
// the version log, like the index, and serves docs check.
//
// A pair comes from cachebro.yml (its section docs), from a comment in the
// document (<!-- cachebro: documents src/cache.go src/store/ -->), or, where
// neither names anything, from the paths of source files that the document names.
// The baseline of a pair is what the code was in the version of the log that made the
// pair, or the code's own first version where that comes later. From then on only Mark
// moves it. An edit of the document does not, because only its author knows whether the
// edit caught up with the code. There are two exceptions: what a process goes on writing
// right after it made the code (baseline.Fresh), and a git command that wrote both sides
// (a checkout, a pull).
//
// A pair is stale while the code differs from its baseline, so an undo of the code makes
// the pair current again. Staleness is not stored: it follows from the version log.
//
// In the store's settings, bucket "docsync", as CBOR with integer keys; what one
// batch of versions changes is written in one step with the position after it:
//
//	at                 the position in the version log
//	manifest           what cachebro.yml declares
//	doc NUL path       what a document names
//	base NUL path NUL spec   the baseline of a pair, kept for a while after its end
//
// # Locks
//
// mu guards everything and is held over the store: there is one follower, and a
// check must see what it sees. Pinned takes no lock.
package docsync
