// Package remote keeps copies of histories in an S3-compatible bucket: it sends what one
// history got since the last time, and reads whole histories back. A bucket serves many
// machines, each of which writes under an id of its own and owns its history; nobody
// waits for another, and who sends or reads a history lists nothing.
//
// Below the prefix that a project has in its bucket lie
//
//	machines                   who writes here
//	heads/MACHINE              what that machine has sent, as it is now
//	lists/MACHINE/SHA256       older segments that a head does not name itself
//	logs/MACHINE/SHA256        the log of a segment
//	contents/MACHINE/GEN/SHA256
//	                           the contents of a segment
//
// The first two change, by conditional writes only (If-Match, If-None-Match). All others
// are named by the SHA-256 of their bytes and never change. A segment is a part of a
// history as package portable encodes it; its log names the log before it, so that the
// segments of a machine are a chain, whose end is in the head. machines, heads and lists
// are a line "cachebro-remote 1 KIND SHA256" and JSON, whose hash that is.
//
// A segment is there before the head that names it: who is killed in between leaves
// objects that nobody reads. What comes from a bucket is believed no further than its
// hashes go, and a reader takes no more bytes than were announced.
package remote
