// Package fork implements cachebro fork. A fork is a copy of the project, in its present or an
// earlier state, in which an agent or a person can work. It has its own history. A three-way merge
// of the files brings its changes into the project.
//
// The daemon fills the copy (cmd/cachebro/daemon/fork). In a git repository the copy is a worktree
// of the repository, so it shares git's objects and the packs of the history. origin.json in the
// state directory of a fork records what the fork was made from.
package fork
