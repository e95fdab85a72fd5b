// Package diff compares two versions of a text by lines. It computes the edits between them,
// unified hunks for patch(1), and which lines of one version correspond to which lines of the
// other. Agents that read a changed file again receive this output, so a wrong hunk would deceive
// them.
//
// Lines are byte strings and keep their final "\n". UTF-8 is not decoded, so invalid UTF-8, NULs
// and carriage returns pass through. A last line without a newline differs from the same line with
// one. UTF-16 is first converted to the text that readers are shown (package text). The search is
// go-diff's bisection (Myers, in linear memory) over numbers; equal lines get equal numbers.
// go-diff's line mode is not used, because it decodes lines, and confuses some of them if more than
// 55,000 are distinct.
//
// The package has no state and no locks. All functions may run concurrently.
package diff
