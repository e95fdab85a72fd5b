// Package content stores the contents of versions under their hashes. A content is first
// stored plain, compressed or as a delta, and later packed into files that the stores of
// sibling worktrees share.
//
// It does not know the log. The caller supplies functions that list what refers to a content
// and which paths it had (Log, Sweep). Contents become visible when the log commits (Batch).
//
// # Pack files
//
// The directory packs/ next to the database holds the files that repacks wrote (see
// packfile.go). A finished file never changes, so the stores of sibling worktrees share it by
// hard links. A new store adopts its siblings' files before its first scan and refers to
// their contents instead of storing them again (Adopt). EndOffers merges contents that
// several stores stored independently. A store never communicates with another one or waits
// for it, and it does not lose content when another one is deleted, because its own hard link
// keeps the bytes on the disk. A file is removed once it contains no frame of this store.
// Files that were being written or adopted when a process was killed are removed by the next
// Open.
package content
