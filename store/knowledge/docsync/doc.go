// Package docsync finds documents that may be out of date. It pairs documents with the code
// that they describe, records the state of the code when both last agreed, and compares it
// with the present code. In observe → version → index → serve it follows the version log,
// like the index, and serves docs check.
//
// A pair comes from cachebro.yml (its section docs), from a comment in the document (<!--
// cachebro: documents src/cache.go src/store/ -->), or, if neither names anything, from the
// paths of source files in the document. The baseline of a pair is the code as of the version
// of the log that created the pair, or the code's own first version if that is later. From
// then on only Mark changes the baseline. An edit of the document does not, because only its
// author knows whether the document now agrees with the code. There are two exceptions,
// namely further writes of a process right after it created the code (baseline.Fresh), and a
// git command that wrote both sides (a checkout, a pull).
//
// A pair is stale while the code differs from its baseline, so an undo of the code makes the pair
// current again. Staleness is not stored; it is computed from the version log.
//
// The pairs are in the store's settings, bucket "docsync", as CBOR with integer keys. The changes of
// one batch of versions are written in one step, together with the new position:
//
//	at                 the position in the version log
//	manifest           what cachebro.yml declares
//	doc NUL path       what a document names
//	base NUL path NUL spec   the baseline of a pair, retained for a while after the pair ended
//
// # Locks
//
// mu guards everything and is held while the store is read, because there is one follower,
// and a check must see one consistent state. Pinned takes no lock.
package docsync
