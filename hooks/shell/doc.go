// Package shell understands the shell commands of agents: what a command line runs
// (Pipelines), and of commands that read files (cat, head, tail, sed -n, several of
// them in one line), which lines of which file they print. What it does not
// understand whole it leaves alone.
package shell
