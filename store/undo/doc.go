// Package undo plans what takes versions back: undo, redo, revert, restore and the
// rollback of a plan that was cut short. It reads the history and writes nothing: the
// plan is journalled by package store and carried out by package undo/apply, in the
// command that asked, through the mountpoint.
//
// # From a question to steps
//
//  1. A query becomes a selection, the versions that are to be taken out (undo.go).
//     Revert and restore name states instead (revert.go, paths.go).
//  2. The versions since become facts about cells: the entries of directories, the contents
//     and the metadata of nodes (cells.go). What earlier plans brought back counts as the
//     fact that they brought back, so that undo and redo can follow each other.
//  3. Each cell gets an aim, or a conflict is named (decide.go).
//  4. Contents that reaching the aims would destroy, and that the store lacks, are
//     brought into it by the caller (secure.go). This is the one step in which the store
//     is written to, and no view of it is open meanwhile.
//  5. Aims that cannot be reached are dropped and named, until the result is a tree
//     (reachable in decide.go).
//  6. The aims that are left become steps (carry.go). Renames come first: they need no
//     content and carry along what nobody has looked at. Directories are open while
//     something in them changes.
//
// All but the fourth read one moment: the newest version when the plan was begun
// (planner.go).
//
// # Rules
//
//   - A cell is touched only if it still is what the undone actor last left. Else it is
//     a conflict, unless the query says Merge and the lines do not meet (contents.go), or
//     Force.
//   - Nothing is destroyed that could not be brought back: the content is in the store,
//     or goes elsewhere by a rename, or the path is left alone.
//   - What cannot come back is named, by directory where it is much (lost.go). A plan
//     never says less than it leaves out.
//   - Directories stay while somebody else's files are in them.
//   - No file gets rights of its owner (set-id bits, capabilities) that its content never
//     had under that name.
package undo
