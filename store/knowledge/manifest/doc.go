// Package manifest reads and edits cachebro.yml, the one file of a project that
// is written for cachebro by people and agents and checked in with the code. It
// names what observation cannot know: groups of files with a meaning and a
// summary, and which document describes which code. In observe → version →
// index → serve it is an input to "serve"; its versions are kept like any other
// file's.
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
// Set changes the bytes of one value and leaves every other byte as it is. Both
// libraries that could print a tree again (goccy/go-yaml's AST, yaml.v3's nodes)
// were tried on a file with comments: one lost blank lines, line ends and the
// spaces before comments, the other also changed every indentation. So yaml.v3's
// nodes say where things are, the text is spliced, and the result is parsed and
// compared: it must be the old tree with that one value changed, else the edit is
// refused and nothing is written.
//
// The package has no state and no locks. Write replaces the file in one step and
// refuses when it is no longer what the edit began with.
package manifest
