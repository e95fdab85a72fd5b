// Package reshape says the output of a command in fewer words, with nothing less in
// it. It stands at the serve end of observe → version → index → serve: hooks and
// the MCP server ask it before a text reaches a model.
//
// A rule is one file: a pure function of the text, used only where the command and
// the form of the output both say what the text is. There are two kinds. Rearranging
// rules (search results under their path, lists of paths as a tree, repeated blocks, lines
// that count up, lines that begin or end alike) have an inverse. The result is used only
// if its inverse is the text, byte for byte; codes of colours alone are lost. Folding rules (tests that passed, progress that
// was written over, stack frames outside of the project, git's hints) leave a line that
// says what is missing and under which id the whole text is kept ("cachebro output ID").
// The output of a command that failed is rearranged, but only foreign frames of it are
// folded.
//
// Never touched is what was asked for byte for byte or for another program: see
// never.go. Every sentence of ours starts with "cachebro: ".
//
// No state, no locks, no clock.
package reshape
