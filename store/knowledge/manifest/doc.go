// Package manifest reads and edits cachebro.yml, the one file of a project that users and
// agents write for cachebro and check in with the code. It holds information that cannot be
// observed, namely groups of files with a meaning and a summary, and which document describes
// which code. In observe → version → index → serve it is an input to "serve"; its versions
// are recorded like those of any other file.
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
// Paths are relative to the project, end with a slash for a directory, and may
// be patterns (*, ?, [..], ** for any number of directories).
//
// # Edits
//
// Set changes the bytes of one value and leaves every other byte as it is. Two libraries that
// can print a tree (goccy/go-yaml's AST, yaml.v3's nodes) were tried on a file with comments:
// one lost blank lines, line ends and the spaces before comments, the other also changed
// every indentation. So yaml.v3's nodes are used only for positions. The text is spliced, and
// the result is parsed and compared. If it is not the old tree with that one value changed,
// the edit is refused and nothing is written.
//
// The package has no state and no locks. Write replaces the file in one step. It returns an
// error if the file has changed since the edit began.
package manifest
