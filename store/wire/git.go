package wire

import "time"

// MGitPlan: PlanRequest → GitPlan: what takes back what was done to git's own files.
const MGitPlan = "git_plan"

// MGitLost: Empty → GitLost: what commits the refs of the repositories led to.
const MGitLost = "git_lost"

// GitKept is what is kept of git's own files and objects that were replaced or removed.
type GitKept struct {
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Oldest   time.Time `json:"oldest,omitzero"`
	Wants    time.Time `json:"wants,omitzero"` // of what was lost before, some had to make room
	MaxBytes int64     `json:"max_bytes"`
	MaxDays  int       `json:"max_days"`
}

// GitOp is what somebody did to a repository.
type GitOp struct {
	ID      uint64    `json:"id"`  // undo --git gID takes it back
	Key     string    `json:"key"` // of the action that it belongs to, as Action has it
	Begin   time.Time `json:"begin"`
	End     time.Time `json:"end"`
	Actor   Actor     `json:"actor"`
	Command string    `json:"command"`
	Text    string    `json:"text"` // what became of refs, in words; "" nothing that a person notices
}

// GitPlan is carried out by the client through the mountpoint, as Plan is.
type GitPlan struct {
	Title     string     `json:"title"`
	Steps     []GitStep  `json:"steps,omitempty"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"`
	// Dirs are the git directories whose objects are to be there again, of those that
	// were removed since.
	Dirs  []string  `json:"dirs,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// PID is the process whose doing it was, if it was one's: it may have changed files.
	PID    uint32 `json:"pid,omitempty"`
	Text   string `json:"text,omitempty"`   // what became of refs
	ID     uint64 `json:"id,omitempty"`     // of the only operation, or the last
	Prompt string `json:"prompt,omitempty"` // the one that "last" meant
}

// GitStep brings one path of a git directory back. Do is write, link, mkdir, delete,
// rmdir or rename. The content is that of Kept, or Content, or of what is there, and of
// that no more than Size bytes.
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
	Now     string `json:"now"` // "absent", "dir", "link TARGET", or the SHA-256 of the content, in hex
}

// GitLost is what the history knows of the repositories' refs.
type GitLost struct {
	Tips []GitTip `json:"tips,omitempty"`
	Kept string   `json:"kept,omitempty"` // the directory of what is kept
}

// GitTip is a commit that a ref, or a line of a reflog, named.
type GitTip struct {
	Dir    string    `json:"dir"`  // git directory, below the project
	Name   string    `json:"name"` // of the ref
	Commit string    `json:"commit"`
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"` // the command that ended it
}
