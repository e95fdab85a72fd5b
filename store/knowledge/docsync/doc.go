// Package docsync finds documents that may be out of date. It pairs documents with the code that
// they describe. It records the state of the code when both agreed, and compares it with the
// present code. It follows the version log.
//
// A pair comes from the section docs of cachebro.yml, or from a comment in the document (<!--
// cachebro: documents src/cache.go src/store/ -->). If neither names code, it comes from the paths
// of source files in the document.
//
// The baseline of a pair is the code at the version of the log that created the pair, or at the
// code's own first version if that is later. Only Mark changes a baseline. An edit of the document
// does not, because only its author knows whether the document now agrees with the code. There are
// two exceptions:
//   - further writes by the process that has just created the code (baseline.Fresh)
//   - a git command that wrote both the document and the code (a checkout, a pull)
//
// A pair is stale while the code differs from its baseline, so an undo of the code makes the pair
// current again. Staleness is not stored; it is computed from the version log.
//
// The pairs are in the store's settings, bucket "docsync", as CBOR with integer keys. The key at is
// written last, so an interrupted batch of versions is processed again.
//
//	at                 the position in the version log
//	manifest           what cachebro.yml declares
//	doc NUL path       what a document names
//	base NUL path NUL spec   the baseline of a pair, retained for a while after the pair ended
//
// # Locks
//
// mu guards everything and is held while the store is read. There is only one follower, and a check
// must see one consistent state. Pinned takes no lock.
package docsync
