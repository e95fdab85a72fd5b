// Package history has the commands that show the past and bring it back: log,
// show, diff, blame, undo, redo, revert, restore.
package history
