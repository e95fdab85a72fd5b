// Package portable transfers a whole history from one machine to another. Export writes it as
// one stream, Import creates a store from such a stream, and Check verifies a stream.
//
// A stream comes from somebody else, so nothing in it is trusted. Import verifies its checksum, the
// hash of each content and the path of each version. It drops open plans and the processes of
// sessions, and marks each version as foreign. stream.go describes the format, which contains the
// records of package store unchanged.
package portable
