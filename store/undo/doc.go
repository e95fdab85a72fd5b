// Package undo plans undo, redo, revert, restore and the rollback of an interrupted plan. It reads
// the history and writes nothing. Package store writes the plan into its journal. Package
// undo/apply carries it out through the mountpoint, in the process of the command.
//
// # From a query to steps
//
//  1. A query selects the versions to undo (undo.go). Revert and restore give
//     states instead (revert.go, paths.go).
//  2. The versions since then become facts, which are changes of cells: the entries of
//     directories, and the contents and metadata of nodes (cells.go). A fact by which an
//     earlier plan restored a value counts as the fact that it restored, unless that plan
//     itself is to be undone. So undo and redo can follow each other.
//  3. Each cell gets an aim, or a conflict is listed (decide.go).
//  4. The caller stores the contents that the aims would destroy and that the store lacks
//     (secure.go). Only this step writes to the store, and no view is open meanwhile.
//  5. Impossible aims are dropped and listed until the result is a tree (reachable in
//     decide.go).
//  6. The remaining aims become steps (carry.go). Renames come first, because they need no
//     content and move even files that nobody has read. Directories are writable while
//     something in them changes.
//
// All steps but the fourth read the history up to the newest version at the beginning (planner.go).
//
// # Rules
//
//   - A cell is changed only if it still is as the undone actor last left it. Otherwise it is a
//     conflict. With Merge, changes of different lines are merged (contents.go). Force ignores
//     conflicts.
//   - Nothing is destroyed that could not be restored. Its content is in the store, or it is
//     renamed elsewhere, or the path is left alone.
//   - Everything that cannot be restored is listed, by directory if there is much of it (lost.go).
//   - Directories stay while other people's files are in them.
//   - No file gets set-id bits or capabilities that its content never had under that name.
package undo
