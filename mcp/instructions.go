package mcp

// instructions is shown to the model once per context. It says only what the tools' names and
// descriptions do not.
func instructions(profile string) string {
	switch profile {
	case ProfileAll:
		return "Every version of every file is kept, whichever program wrote or deleted it; undo and revert_file can themselves be undone. Paths are relative to the project, or absolute inside it."
	case ProfileSafety:
		return "Every version of every file is kept, whichever program wrote or deleted it."
	}
	return "" // the tools' descriptions say everything
}
