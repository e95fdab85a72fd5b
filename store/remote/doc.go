// Package remote stores copies of histories in an S3-compatible bucket. It sends what was added to
// a history since the last time, and reads whole histories back. A bucket serves many machines.
// Each writes under its own ID and owns its history. No machine waits for another, and sending or
// reading a history needs no listing.
//
// A project's prefix in its bucket contains
//
//	machines                   which machines write here
//	heads/MACHINE              what that machine has sent so far
//	lists/MACHINE/SHA256       older segments that are not in the head itself
//	logs/MACHINE/SHA256        the log of a segment
//	contents/MACHINE/GEN/SHA256
//	                           the contents of a segment; prune.go explains GEN
//
// Only the first two ever change, by conditional writes (If-Match, If-None-Match). All others are
// named by the SHA-256 of their bytes. A segment is a part of a history in the encoding of package
// portable. Its log names the previous log, so the segments of a machine form a chain that ends at
// the head. machines, heads and lists consist of a line "cachebro-remote 1 KIND SHA256" and JSON
// with that hash.
//
// A segment is written before the head that names it. A sender killed in between leaves unused
// objects. A reader uses data from a bucket only if its hash matches, and never reads more bytes
// than announced.
package remote
