// Package diff compares two versions of a text by lines. It computes the edits between them,
// unified hunks that patch(1) applies, and which lines of one version correspond to which
// lines of the other. It belongs to the "serve" stage of observe → version → index → serve. A
// repeated read of a changed file is answered with its output, so a wrong hunk would deceive
// a reader.
//
// Lines are byte strings and keep their final "\n". UTF-8 is not decoded, so invalid UTF-8, NULs
// and carriage returns pass through, and a last line without a newline differs from the same line
// with one. Only UTF-16 is first converted to the text that readers are shown (package text). The
// search is go-diff's bisection (Myers, in linear memory). go-diff's own line mode is not used,
// because it decodes lines and merges some above 55,000 distinct ones; here equal lines get equal
// numbers, and go-diff compares those.
//
// The package holds no state and no locks; all functions may run in parallel.
package diff
