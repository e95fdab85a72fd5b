// Package shell understands the shell commands of agents: what a command line runs
// (Pipelines), and which lines of which files the commands that read files print (cat,
// head, tail, sed -n, several of them in one line). A command that it understands only
// in part counts as not understood.
package shell
