package mcp

// instructions is shown to the model once per context, so it holds what the
// tools' names and descriptions do not say, and gives no orders.
func instructions(profile string) string {
	switch profile {
	case ProfileAll:
		return "Every version of every file is kept, whichever program wrote or deleted it; undo and revert_file can themselves be undone. Paths are relative to the project, or absolute inside it."
	case ProfileSafety:
		return "Every version of every file is kept, whichever program wrote or deleted it."
	}
	return "" // the tools' descriptions already say everything that a model cannot guess
}
