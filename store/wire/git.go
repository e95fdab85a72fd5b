package wire

import "time"

// MGitPlan: PlanRequest → GitPlan, which takes back changes to git's own files.
const MGitPlan = "git_plan"

// MGitLost: Empty → GitLost, the commits that refs of the repositories once named.
const MGitLost = "git_lost"

// GitKept describes the kept copies of git's own files and objects that were replaced or removed.
type GitKept struct {
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Wants    time.Time `json:"wants,omitzero"` // set if older copies had to be dropped for lack of space
	MaxBytes int64     `json:"max_bytes"`
	MaxDays  int       `json:"max_days"`
}

// GitOp is one operation that somebody did on a repository.
type GitOp struct {
	ID      uint64    `json:"id"`  // undo --git gID takes it back
	Key     string    `json:"key"` // Key of the Action that it belongs to
	Begin   time.Time `json:"begin"`
	End     time.Time `json:"end"`
	Actor   Actor     `json:"actor"`
	Command string    `json:"command"`
	Text    string    `json:"text"` // what happened to refs, in words; "": nothing that a person would notice
}

// GitPlan is carried out by the client through the mount, like Plan.
type GitPlan struct {
	Title     string     `json:"title"`
	Steps     []GitStep  `json:"steps,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"`
	// Dirs are the git directories in which objects removed since Since are to be restored.
	Dirs  []string  `json:"dirs,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// PID is the process that did it, if it was one: it may have changed files as well.
	PID    uint32 `json:"pid,omitempty"`
	Text   string `json:"text,omitempty"`   // what happened to refs
	ID     uint64 `json:"id,omitempty"`     // the only operation, or the last
	Prompt string `json:"prompt,omitempty"` // the prompt that "last" meant
}

// GitStep restores one path of a git directory. Do is write, link, mkdir, delete, rmdir or
// rename. The content is the kept copy named by Kept, or Content, or with Here the first Size
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
	Now     string `json:"now"` // what must be there now: "absent", "dir", "link TARGET", or the hex SHA-256 of the content
}

// GitLost is what the history knows about the repositories' refs.
type GitLost struct {
	Tips []GitTip `json:"tips,omitempty"`
	Kept string   `json:"kept,omitempty"` // the directory of the kept copies
}

// GitTip is a commit that a ref or a line of a reflog once named.
type GitTip struct {
	Dir    string    `json:"dir"`  // git directory, relative to the project
	Name   string    `json:"name"` // name of the ref
	Commit string    `json:"commit"`
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"` // the command after which the ref no longer named it
}
