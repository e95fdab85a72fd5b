// Package conformance is one suite for the read decision, to be run against
// the decision itself, the daemon's socket, and MCP over stdio and HTTP. Each
// case is a way in which a read cache has lied to a reader.
//
// A Subject offers what every way in has: files and readers. What only some
// have (a client's events, commits, a clock) are interfaces of their own; cases
// that need one which the subject lacks are skipped by name. Every answer is
// also held against a Mind, a model of what its reader believes.
package conformance
