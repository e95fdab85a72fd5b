// Package content stores the contents of versions under their hashes. A content is first stored
// plain, compressed or as a delta. A repack later compresses it together with similar contents into
// a frame. The frames lie in pack files, which the stores of sibling worktrees (of the same git
// repository) can share.
//
// This package does not use the log. Callers supply functions that list the references to contents
// and their paths (Log, Sweep). Contents become visible when the log commits (Batch).
//
// # Pack files
//
// The directory packs/ next to the database holds the files that repacks wrote (see packfile.go). A
// finished file never changes, so the stores of sibling worktrees share it by hard links. A new
// store adopts its siblings' files before its first scan, and refers to their contents instead of
// storing them again (Adopt). EndOffers merges contents that several stores stored independently.
//
// Stores never communicate or wait for each other. If one is deleted, the hard links of the others
// keep the bytes on the disk. A file is removed once this store needs none of its frames. Open
// removes files that a killed process was writing or adopting.
package content
