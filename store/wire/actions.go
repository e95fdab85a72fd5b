package wire

import (
	"slices"
	"time"
)

// MActions: ActionsQuery → Actions: the log by what somebody did.
const MActions = "actions"

// ActionsQuery selects versions as LogQuery does and asks for them by action: those of
// one tool call, one job of a shell, one undo.
type ActionsQuery struct {
	Path     []byte    `json:"path,omitempty"`
	Session  string    `json:"session,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	ToolCall string    `json:"tool_call,omitempty"`
	Author   string    `json:"author,omitempty"` // name of a process, its number, an agent, a tool, the beginning of a session
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Ops      []string  `json:"ops,omitempty"`
	Oldest   bool      `json:"oldest_first,omitempty"`
	Limit    int       `json:"limit,omitempty"`    // actions; 0: 100
	Files    int       `json:"files,omitempty"`    // files listed of each action, the counts are of all; 0: 1,000
	Lines    bool      `json:"lines,omitempty"`    // count lines, as far as that takes no time that a person notices
	Together bool      `json:"together,omitempty"` // one action of everything
	Lost     bool      `json:"lost,omitempty"`     // as LogQuery.Lost
	// Fold: where not all files can be listed, those of a directory that changed in the
	// same way are one entry, with their number below it.
	Fold bool `json:"fold,omitempty"`
	// Seq and Skip go on where an answer ended; without, Seq is the version behind
	// which (Oldest) or before which to begin.
	Seq  uint64       `json:"seq,omitempty"`
	Skip []ActionSpan `json:"skip,omitempty"`
}

// ActionSpan is an action that was told already, from its first to its last version.
type ActionSpan struct {
	Key   string `json:"key"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// Actions is one page. More: ask again with Seq and Skip.
type Actions struct {
	Actions []Action     `json:"actions"`
	More    bool         `json:"more,omitempty"`
	Seq     uint64       `json:"seq,omitempty"`
	Skip    []ActionSpan `json:"skip,omitempty"`
	Gaps    []Gap        `json:"gaps,omitempty"`
	Notices []Notice     `json:"notices,omitempty"`
	Git     []GitOp      `json:"git,omitempty"`    // that belong to none of them, oldest first
	Behind  uint64       `json:"behind,omitempty"` // as in LogAnswer
}

// Action is what somebody did. Its texts hold no secrets, but whatever else people and
// programs write: who shows them makes them safe.
type Action struct {
	Key   string    `json:"key"`   // names it as long as the log has it
	First uint64    `json:"first"` // its first and last version
	Last  uint64    `json:"last"`
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Actor is who did it: of a job the process that a shell started.
	Actor   Actor      `json:"actor"`
	Command string     `json:"command"` // what was run, or done
	Dir     string     `json:"dir,omitempty"`
	By      []Ancestor `json:"by,omitempty"` // who started it, up to the agent or the terminal
	Client  string     `json:"client,omitempty"`
	Asked   string     `json:"asked,omitempty"` // the beginning of the prompt
	AskedAt time.Time  `json:"asked_at,omitzero"`
	Began   string     `json:"began,omitempty"` // the beginning of the session's first prompt
	Plan    string     `json:"plan,omitempty"`
	Failed  bool       `json:"failed,omitempty"` // the tool call did
	Left    int        `json:"left,omitempty"`   // paths that an undo left alone

	Git []GitOp `json:"git,omitempty"` // what it did to git's own files

	Files    []ActionFile `json:"files"`
	Count    int          `json:"count"` // files, also those that are not listed
	Added    int          `json:"added"` // lines
	Removed  int          `json:"removed"`
	Partly   bool         `json:"partly,omitempty"`   // not all lines were counted
	Ignored  int          `json:"ignored,omitempty"`  // of Count, those that git ignores
	Fleeting int          `json:"fleeting,omitempty"` // files that came and went
	Same     int          `json:"same,omitempty"`     // files that were written and are as before
	Versions int          `json:"versions"`
	// TakenBack are the plans that took back some of it, the newest first; Back: all of it.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
	Back      bool        `json:"back,omitempty"`
	// Least: only the newest of its thousands of versions were looked at; the counts
	// of files and lines are of those.
	Least bool `json:"least,omitempty"`
}

// Nothing reports whether the action left everything as it was: what it made it removed
// again, and what it wrote is as before. The log shows it only when asked to.
func (a Action) Nothing() bool {
	return a.Count == 0 && a.Plan == "" && len(a.Git) == 0 && !a.Least
}

// WithEffect returns the actions that changed something.
func WithEffect(all []Action) []Action {
	return slices.DeleteFunc(slices.Clone(all), Action.Nothing)
}

// Ancestor is a process above another.
type Ancestor struct {
	PID     uint32 `json:"pid"`
	Comm    string `json:"comm"`
	Command string `json:"command,omitempty"`
}

// The changes of an ActionFile.
const (
	FileAdded    = "added"
	FileModified = "modified"
	FileDeleted  = "deleted"
	FileRenamed  = "renamed"
	FileMode     = "mode" // permissions, owner or attributes only
)

// ActionFile is what became of one file.
type ActionFile struct {
	Path    []byte    `json:"path"`
	From    []byte    `json:"from,omitempty"` // renamed
	Change  string    `json:"change"`
	Dir     bool      `json:"dir,omitempty"`
	Below   int       `json:"below,omitempty"`  // files below a directory that was renamed, deleted, or folded
	Folded  bool      `json:"folded,omitempty"` // the entry is those files, and not the directory
	Added   int       `json:"added,omitempty"`
	Removed int       `json:"removed,omitempty"`
	Counted bool      `json:"counted,omitempty"` // Added and Removed are known
	Binary  bool      `json:"binary,omitempty"`
	Ignored bool      `json:"ignored,omitempty"`
	Size    int64     `json:"size"`
	Before  uint64    `json:"before,omitempty"`  // version before, 0: none
	Seq     uint64    `json:"seq"`               // version after
	By      string    `json:"by,omitempty"`      // name of the process, where it is not that of the action
	Command string    `json:"command,omitempty"` // Together: who changed it last
	Time    time.Time `json:"time"`
	Also    string    `json:"also,omitempty"`    // somebody else changed it meanwhile
	Missing string    `json:"missing,omitempty"` // why the content is not kept
	Lost    string    `json:"lost,omitempty"`    // as Version.Lost
	// TakenBack are the plans that took the change back, or some of its edits, the newest
	// first. What was brought back since is not among them.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
}

// TakenBack is a plan that took a change back.
type TakenBack struct {
	Plan  string `json:"plan"`
	Kind  string `json:"kind"`            // undo, redo, revert or restore
	Seq   uint64 `json:"seq"`             // its number in the log, 0: the log has it not yet
	Edits []int  `json:"edits,omitempty"` // of a file: only these of its edits
	Part  bool   `json:"part,omitempty"`  // not all of its edits
	Files int    `json:"files,omitempty"` // of an action: how many of its files
}

// Whole reports whether nothing of the change is left.
func (t TakenBack) Whole() bool { return !t.Part && len(t.Edits) == 0 }

// MTakenBack: TakenBackQuery → TakenBackAnswer: what took back one change of one file.
const MTakenBack = "takenback"

// TakenBackQuery names the change from version Before to version Seq of a path.
type TakenBackQuery struct {
	Path   []byte `json:"path"`
	Before uint64 `json:"before,omitempty"`
	Seq    uint64 `json:"seq"`
}

// TakenBackAnswer is what took it back, the newest first.
type TakenBackAnswer struct {
	By []TakenBack `json:"by,omitempty"`
}
