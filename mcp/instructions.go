package mcp

import "strings"

// instructions is shown to the model once per context, so it holds what the
// tools' names and descriptions do not say, and gives no orders.
func instructions(profile string) string {
	if profile == ProfileRead {
		return "" // the one tool's description says it
	}
	lines := []string{"Every version of every file is kept, whichever program wrote or deleted it; undo and revert_file can themselves be taken back."}
	if profile != ProfileSafety {
		lines = append(lines, "Paths are relative to the project, or absolute inside it.")
	}
	return strings.Join(lines, " ")
}
