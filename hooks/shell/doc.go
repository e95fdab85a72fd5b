// Package shell parses agents' shell commands. Pipelines returns the programs that a command line
// runs. ParseShow and ParseParts return which lines of which files a command line prints with cat,
// head, tail or sed -n. A partly understood command counts as not understood.
//
// The package has no state and runs nothing.
package shell
