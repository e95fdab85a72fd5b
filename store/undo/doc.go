// Package undo plans undo, redo, revert, restore and the rollback of an interrupted plan. It reads
// the history and writes nothing. Package store writes the plan into its journal. Package
// undo/apply carries it out through the mountpoint, in the process of the command.
//
// # From a query to steps
//
//  1. A query selects the versions to undo (undo.go). For revert and restore, the wanted
//     states are known instead (revert.go, paths.go).
//  2. The versions from the oldest selected one on are read as facts, which are changes of
//     cells. A cell is the smallest thing that has a value: an entry of a directory, or the
//     content or the metadata of a node (cells.go). If an earlier plan restored the value of
//     an older fact, the older fact counts instead, unless that plan itself is to be undone.
//     So undo and redo can follow each other.
//  3. Each cell that should change gets an aim, which is the value it should have, or a
//     conflict is listed (decide.go).
//  4. The caller stores the contents that the aims would destroy and that the store lacks
//     (secure.go). Only this step writes to the store, and no store.View is open meanwhile.
//  5. Impossible aims are dropped and listed until the result is a tree
//     (reachable.go).
//  6. The remaining aims become steps (carry.go). Renames come first, because they need no
//     content and move even files that nobody has read. Directories are made writable
//     while something in them changes.
//
// All steps but the fourth see the history as it was when planning began (planner.go).
//
// # An example
//
// Session A renames x to y and changes its content from "1" to "2". The undo of the session then
// works on three cells of two nodes, the root directory and the file:
//
//	cell             fact                 aim       step
//	entry x of root  the file -> nothing  the file  rename y to x
//	entry y of root  nothing -> the file  nothing   (the same)
//	content of file  "1" -> "2"           "1"       write x
//
// If session B has written "3" since, that is a newer fact of the content, so the content is a
// conflict, and only the name is restored. Consecutive facts of one cell that are undone together are
// a stretch (decide.go).
//
// # Rules
//
//   - A cell is changed only if its newest change is among the changes to undo.
//     Otherwise it is a conflict. With Merge, changes of different lines are merged (contents.go).
//     Force ignores conflicts.
//   - Nothing is destroyed that could not be restored. Its content is in the store, or it is
//     renamed elsewhere, or the path is left alone.
//   - Everything that cannot be restored is listed, by directory if there are many paths (lost.go).
//   - Directories stay while other people's files are in them.
//   - No file gets set-id bits or capabilities that its content never had under that name.
package undo
