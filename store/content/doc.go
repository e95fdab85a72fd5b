// Package content stores the contents of versions under their hashes: plain, compressed,
// as deltas, and finally packed into files that the stores of sibling worktrees share.
//
// It does not know the log. The caller supplies functions that list what refers to a content
// and which paths it had (Log, Sweep). Contents become visible when the log commits (Batch).
//
// # Pack files
//
// The directory packs/ next to the database holds the files that repacks wrote (see
// packfile.go). A finished one never changes, so the stores of sibling worktrees share it by
// hard links. A new store adopts its siblings' files before its first scan and refers to
// their contents instead of storing them again (Adopt). Contents that several stores stored
// independently are merged by EndOffers. No store asks another, waits for it or depends on
// its life, because the link keeps the bytes. A file is removed once no frame of this store
// is in it. Files that were being written or adopted when a process was killed are removed by
// the next Open.
package content
