package mcp

import "strings"

// instructions is shown to the model once per context, so it holds what the
// tools' names and descriptions do not say, and gives no orders.
func instructions(profile string) string {
	if profile == ProfileRead {
		return "read_file gives a file's text once; then [unchanged …] while that text is exact, or a diff against it. Asking again gives the text."
	}
	lines := []string{
		"cachebro keeps every version of every file in this project, whichever program wrote it, also deleted files.",
		"search_history lists the changes; revert_file and undo take them back and can themselves be taken back.",
	}
	if profile != ProfileSafety {
		lines = append(lines,
			"read_file gives a file's text the first time. Later reads give [unchanged …] when the text already sent is still exact, or a unified diff against it; asking again, or force=true, gives the full text.",
			"Paths are relative to the project, or absolute inside it.")
	}
	return strings.Join(lines, "\n")
}
