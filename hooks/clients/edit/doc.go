// Package edit changes JSON (with comments) and TOML as text. Everything that an edit
// does not name keeps its bytes, comments and order.
package edit
