// Package history has the commands that show the history and restore earlier states: log, show,
// diff, blame, undo, redo, revert, restore, git.
package history
