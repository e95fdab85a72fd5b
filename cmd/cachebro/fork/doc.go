// Package fork is cachebro fork: a copy of the project as it is or was, in which somebody
// else works, with a history of its own; and the way back, a three-way merge of the files.
//
// The daemon fills the copy (cmd/cachebro/daemon/fork). In a git repository the copy is one of
// its worktrees, so it shares git's objects and, because cachebro shares packs between
// worktrees, the contents of the history too. What a fork comes from stands in its state
// directory, in origin.json.
package fork
