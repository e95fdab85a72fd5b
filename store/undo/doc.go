// Package undo plans what takes versions back: undo, redo, revert, restore and the
// rollback of a plan that was cut short. It reads the history and writes nothing: the
// plan is journalled by package store and carried out by package undo/apply, in the
// command that asked, through the mountpoint.
package undo
