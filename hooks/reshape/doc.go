// Package reshape shortens the output of a command without losing information. Hooks and the MCP
// server call it before a text reaches a model.
//
// Each rule is a pure function of the text, in a file of its own. A rule is used only if both the
// command and the form of the output show that it fits. There are two kinds of rules.
//
// Rearranging rules have an inverse: search results grouped by path, paths as a tree, repeated
// blocks, lines that count up, lines that begin or end alike. The result is used only if the
// inverse returns the original text byte for byte. Only colour codes are lost.
//
// Folding rules leave out passed tests, overwritten progress, stack frames outside of the project,
// and git's hints. A line says what is missing, and "cachebro output ID" prints the whole text.
//
// Output that was requested byte for byte or for another program is never changed; see never.go.
// Every inserted sentence starts with "cachebro: ".
//
// The package has no state, no locks and no clock.
package reshape
