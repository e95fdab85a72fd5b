// Package conformance is a suite of tests for the read decision, which is the choice of the answer
// to a read. The suite runs against the decision itself, the daemon's socket, and MCP over stdio
// and HTTP. Each case is a way in which a cache of reads once gave a reader a false answer.
//
// A Subject provides what every entry point has: files and readers. Features that only some entry
// points have (a client's events, commits, a clock) are separate interfaces. A case is skipped if
// the subject lacks an interface that the case needs. Every answer is also compared with a Mind,
// which models the beliefs of the reader.
package conformance
