// Package manifest reads and edits cachebro.yml, the one file of a project that users and agents
// write for cachebro and check in with the code. It holds information that cannot be observed:
// groups of files with a meaning and a summary, and which document describes which code.
//
//	nodes:
//	  auth:                        # a named group
//	    kind: domain
//	    summary: Login and sessions.
//	    source: [src/auth/, src/session.go]
//	    uses: [billing]
//	  src/parser.go:               # a path may have a summary too
//	    summary: One pass, no backtracking.
//	docs:
//	  - doc: docs/auth.md
//	    code: [src/auth/, src/session.go]
//
// Paths are relative to the project. A directory ends with a slash. Paths may be patterns (*, ?,
// [..], ** for any number of directories).
//
// # Edits
//
// Set changes the bytes of one value and leaves every other byte unchanged. YAML libraries that
// print a tree (goccy/go-yaml, yaml.v3) lose blank lines or change indentation, so yaml.v3's nodes
// only supply positions. Set splices the text, and parses and compares the result. If the result is
// not the old tree with that one value changed, Set returns an error.
//
// The package has no state and no locks. It neither reads nor writes the file itself.
package manifest
