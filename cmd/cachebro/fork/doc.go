// Package fork implements cachebro fork. A fork is a copy of the project, as it is or was, with a
// history of its own, in which an agent or a person can work. A three-way merge of the files brings
// its changes into the project.
//
// The daemon fills the copy (cmd/cachebro/daemon/fork). In a git repository the copy is a worktree
// of the repository, so it shares git's objects. It also shares the contents of the history,
// because cachebro shares packs between worktrees. origin.json in the state directory of a fork
// says what it was made from.
package fork
