// Package shell understands the shell commands with which agents read files (cat,
// head, tail, sed -n, several of them in one line): which lines of which file a
// command prints. What it does not understand whole it leaves alone.
package shell
