package wire

import (
	"slices"
	"time"
)

// MActions takes an ActionsQuery and returns Actions, the log grouped by action.
const MActions = "actions"

// ActionsQuery selects versions like LogQuery and groups them by action. An action is a tool call,
// a shell job, an undo and so on.
type ActionsQuery struct {
	Path     []byte    `json:"path,omitempty"`
	Session  string    `json:"session,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	ToolCall string    `json:"tool_call,omitempty"`
	Author   string    `json:"author,omitempty"` // name or number of a process, agent, tool, or the beginning of a session's ID
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Ops      []string  `json:"ops,omitempty"`
	Oldest   bool      `json:"oldest_first,omitempty"`
	Limit    int       `json:"limit,omitempty"`    // number of actions; 0: 100
	Files    int       `json:"files,omitempty"`    // files listed per action (all are counted); 0: 1,000
	Lines    bool      `json:"lines,omitempty"`    // count lines, unless that takes noticeable time
	Together bool      `json:"together,omitempty"` // group everything into one action
	Lost     bool      `json:"lost,omitempty"`     // see LogQuery.Lost
	// Fold allows merging files of one directory that changed in the same way into one entry with
	// their number. It applies if not all files can be listed.
	Fold bool `json:"fold,omitempty"`
	// Seq and Skip continue the list where the previous answer ended. If Skip is empty, the list
	// begins before version Seq, or after it if Oldest is set.
	Seq  uint64       `json:"seq,omitempty"`
	Skip []ActionSpan `json:"skip,omitempty"`
}

// ActionSpan identifies, by its first and last version, an action that was already returned.
type ActionSpan struct {
	Key   string `json:"key"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// Actions is one page. If More is set, a query with Seq and Skip returns the next page.
type Actions struct {
	Actions []Action     `json:"actions"`
	More    bool         `json:"more,omitempty"`
	Seq     uint64       `json:"seq,omitempty"`
	Skip    []ActionSpan `json:"skip,omitempty"`
	Gaps    []Gap        `json:"gaps,omitempty"`
	Notices []Notice     `json:"notices,omitempty"`
	Git     []GitOp      `json:"git,omitempty"`    // git operations that belong to no action, oldest first
	Behind  uint64       `json:"behind,omitempty"` // see LogAnswer.Behind
}

// Action describes what somebody did. Its texts contain no secrets, but otherwise anything that
// people and programs write. They must be escaped when displayed.
type Action struct {
	Key   string    `json:"key"`   // identifies the action while the log contains it
	First uint64    `json:"first"` // its first and last version
	Last  uint64    `json:"last"`
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Actor is who did it. For a shell job it is the process that the shell started.
	Actor   Actor      `json:"actor"`
	Command string     `json:"command"` // the command that was run, or a description
	Dir     string     `json:"dir,omitempty"`
	By      []Ancestor `json:"by,omitempty"` // the processes that started it, up to the agent or the terminal
	Client  string     `json:"client,omitempty"`
	Asked   string     `json:"asked,omitempty"` // the beginning of the prompt
	AskedAt time.Time  `json:"asked_at,omitzero"`
	Began   string     `json:"began,omitempty"` // the beginning of the session's first prompt
	Plan    string     `json:"plan,omitempty"`
	Failed  bool       `json:"failed,omitempty"` // the tool call failed
	Left    int        `json:"left,omitempty"`   // number of paths that an undo left alone

	Git []GitOp `json:"git,omitempty"` // what the action did to git's own files

	Files    []ActionFile `json:"files"`
	Count    int          `json:"count"` // number of files, including unlisted ones
	Added    int          `json:"added"` // lines
	Removed  int          `json:"removed"`
	Partly   bool         `json:"partly,omitempty"`   // some lines were not counted
	Ignored  int          `json:"ignored,omitempty"`  // number of files in Count that git ignores
	Fleeting int          `json:"fleeting,omitempty"` // number of files that were created and deleted again
	Same     int          `json:"same,omitempty"`     // number of files that were written but have their old content
	Versions int          `json:"versions"`
	// TakenBack lists the plans that undid part of the action, newest first. Back means that the
	// whole action was undone.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
	Back      bool        `json:"back,omitempty"`
	// Least means that the action has thousands of versions and only the newest were examined. The
	// counts of files and lines cover only these versions.
	Least bool `json:"least,omitempty"`
}

// NoEffect reports whether the action had no lasting effect. Such an action removed the files that
// it created, and the files that it wrote have their old content. The log shows it only on request.
func (a Action) NoEffect() bool {
	return a.Count == 0 && a.Plan == "" && len(a.Git) == 0 && !a.Least
}

// WithEffect returns the actions that changed something.
func WithEffect(all []Action) []Action {
	return slices.DeleteFunc(slices.Clone(all), Action.NoEffect)
}

// Ancestor is an ancestor of a process.
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
	FileMode     = "mode" // only permissions, owner or attributes
)

// ActionFile describes what happened to one file.
type ActionFile struct {
	Path    []byte    `json:"path"`
	From    []byte    `json:"from,omitempty"` // previous name of a renamed file
	Change  string    `json:"change"`
	Dir     bool      `json:"dir,omitempty"`
	Below   int       `json:"below,omitempty"`  // number of files in a renamed, deleted or folded directory
	Folded  bool      `json:"folded,omitempty"` // the entry represents files of the directory, not the directory itself
	Added   int       `json:"added,omitempty"`
	Removed int       `json:"removed,omitempty"`
	Counted bool      `json:"counted,omitempty"` // Added and Removed are known
	Binary  bool      `json:"binary,omitempty"`
	Ignored bool      `json:"ignored,omitempty"`
	Size    int64     `json:"size"`
	Before  uint64    `json:"before,omitempty"`  // version before the change; 0 if there is none
	Seq     uint64    `json:"seq"`               // version after the change
	By      string    `json:"by,omitempty"`      // name of the process, if not the action's
	Command string    `json:"command,omitempty"` // the last command that changed the file, if Together is set
	Time    time.Time `json:"time"`
	Also    string    `json:"also,omitempty"`    // who else changed the file meanwhile
	Missing string    `json:"missing,omitempty"` // why the content is not stored
	Lost    string    `json:"lost,omitempty"`    // see Version.Lost
	// TakenBack lists the plans that undid the change or some of its edits, newest first, without
	// plans that were undone themselves.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
}

// TakenBack is a plan that undid a change.
type TakenBack struct {
	Plan  string `json:"plan"`
	Kind  string `json:"kind"`            // undo, redo, revert or restore
	Seq   uint64 `json:"seq"`             // number of the plan in the log; 0 if not in the log yet
	Edits []int  `json:"edits,omitempty"` // for a file: only these edits were undone
	Part  bool   `json:"part,omitempty"`  // some edits were not undone
	Files int    `json:"files,omitempty"` // for an action: the number of its files that were undone
}

// Whole reports whether the whole change was undone.
func (t TakenBack) Whole() bool { return !t.Part && len(t.Edits) == 0 }

// TakenBackWhole reports whether plans undid a whole change.
func TakenBackWhole(by []TakenBack) bool { return len(by) > 0 && by[len(by)-1].Whole() }

// MTakenBack takes a TakenBackQuery and returns a TakenBackAnswer. It lists the plans that undid
// one change of one file.
const MTakenBack = "takenback"

// TakenBackQuery names the change from version Before to version Seq of a path.
type TakenBackQuery struct {
	Path   []byte `json:"path"`
	Before uint64 `json:"before,omitempty"`
	Seq    uint64 `json:"seq"`
}

// TakenBackAnswer lists the plans that undid the change, newest first.
type TakenBackAnswer struct {
	By []TakenBack `json:"by,omitempty"`
}
