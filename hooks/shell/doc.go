// Package shell parses the shell commands of agents. Pipelines returns the programs that a command
// line runs. ParseShow and ParseParts return which lines of which files it prints, if it reads files
// with cat, head, tail or sed -n. A command that the package understands only in part counts as not
// understood.
//
// It has no state and runs nothing.
package shell
