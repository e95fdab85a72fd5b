// Package portable carries a whole history from one machine to another: Export writes
// it as one stream, Import makes a new store of such a stream, Check verifies one.
//
// A stream comes from somebody else, so nothing in it is trusted. Import verifies its
// checksum, the hash of each content and the path of each version, drops open plans and
// the processes of sessions, and marks each version as foreign. stream.go describes the
// format; it carries the records of package store unchanged.
package portable
