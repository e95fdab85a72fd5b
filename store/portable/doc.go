// Package portable carries a whole history from one machine to another: Export writes
// it as one stream, Import makes a new store of such a stream, Check verifies one.
//
// A stream comes from somebody else, so nothing in it is believed. Its sum, the hash
// of each content and the path of each version are verified, open plans and the
// processes of sessions stay behind, and each version is marked as foreign. The format
// stands in stream.go; it holds the records of package store as they lie there.
package portable
