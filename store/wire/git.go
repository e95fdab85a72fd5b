package wire

import (
	"time"

	"cachebro/store/leaf/gitdir"
)

// MGitPlan takes a PlanRequest and returns a GitPlan that undoes changes to git's own files.
const MGitPlan = "git_plan"

// MGitLost takes Empty and returns GitLost.
const MGitLost = "git_lost"

// GitKept describes the saved copies of git's own files and objects that git replaced or removed.
type GitKept struct {
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Wants    time.Time `json:"wants,omitzero"` // for lack of space, some copies from before this time were dropped
	MaxBytes int64     `json:"max_bytes"`
	MaxDays  int       `json:"max_days"`
}

// GitOp is one operation that somebody did on a repository.
type GitOp struct {
	ID      uint64    `json:"id"`  // undo --git gID undoes it
	Key     string    `json:"key"` // Key of the Action that it belongs to
	Begin   time.Time `json:"begin"`
	End     time.Time `json:"end"`
	Actor   Actor     `json:"actor"`
	Command string    `json:"command"`
	Text    string    `json:"text"` // what happened to refs; "" if the user would not notice it
}

// GitPlan is a plan for git's own files. The client carries it out through the mount.
type GitPlan struct {
	Title     string     `json:"title"`
	Steps     []GitStep  `json:"steps,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"`
	// Dirs are the git directories in which objects removed after Since are restored.
	Dirs  []string  `json:"dirs,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// PID is the process of the undone operation, or 0 if several operations are undone. It may
	// also have changed files of the project.
	PID     uint32 `json:"pid,omitempty"`
	Text    string `json:"text,omitempty"`    // what happened to refs
	ID      uint64 `json:"id,omitempty"`      // the undone operation; of several, the last one
	Session string `json:"session,omitempty"` // the session that "last" referred to
	Prompt  string `json:"prompt,omitempty"`  // the prompt that "last" referred to
	Kept    string `json:"kept,omitempty"`    // the directory of the saved copies
}

// GitStep restores one path of a git directory. Do is write, symlink, mkdir,
// chmod (mode and owner), delete, rmdir, rename or GitUnmake.
// The content is Content or the saved copy named by Kept. If Here is set, it is the first Size
// bytes of the present file.
type GitStep struct {
	Do      string `json:"do"`
	Path    []byte `json:"path"`
	To      []byte `json:"to,omitempty"`
	Target  []byte `json:"target,omitempty"`
	Content []byte `json:"content,omitempty"`
	Kept    string `json:"kept,omitempty"`
	Here    bool   `json:"here,omitempty"`
	Size    int64  `json:"size"`
	Mode    uint32 `json:"mode,omitempty"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Now     string `json:"now"` // what must be there before the step: "absent", "dir", "link TARGET", or the hex SHA-256 of the content
}

// GitUnmake is the step that removes a git directory after the other steps have removed everything
// in it but objects and files that git can make again.
const GitUnmake = "unmake"

// UnmadeDirs returns the git directories that steps remove as a whole.
func UnmadeDirs(steps []GitStep) map[string]bool {
	dirs := map[string]bool{}
	for _, s := range steps {
		if s.Do == GitUnmake {
			dirs[string(s.Path)] = true
		}
	}
	return dirs
}

// InUnmade reports whether a step belongs to a git directory that is removed as a whole, or removes
// the link of a worktree or submodule to its git directory.
func (s GitStep) InUnmade(unmade map[string]bool) bool {
	dir, rest, _ := gitdir.Split(string(s.Path))
	return unmade[dir] || s.Do == "delete" && rest == ""
}

// GitLost lists the commits that refs of the repositories once named.
type GitLost struct {
	Tips []GitTip `json:"tips,omitempty"`
	Kept string   `json:"kept,omitempty"` // the directory of the saved copies
}

// GitTip is a commit that a ref or a line of a reflog once named.
type GitTip struct {
	Dir    string    `json:"dir"`  // git directory, relative to the project
	Name   string    `json:"name"` // name of the ref
	Commit string    `json:"commit"`
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"` // the command after which the ref named another commit
}
