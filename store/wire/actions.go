package wire

import (
	"slices"
	"time"
)

// MActions takes an ActionsQuery and returns Actions, the log grouped by action.
const MActions = "actions"

// ActionsQuery selects versions like LogQuery, but groups them by action. An action is a tool
// call, a job of a shell, an undo and so on.
type ActionsQuery struct {
	Path     []byte    `json:"path,omitempty"`
	Session  string    `json:"session,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	ToolCall string    `json:"tool_call,omitempty"`
	Author   string    `json:"author,omitempty"` // process name or number, agent, tool, or beginning of a session
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Ops      []string  `json:"ops,omitempty"`
	Oldest   bool      `json:"oldest_first,omitempty"`
	Limit    int       `json:"limit,omitempty"`    // number of actions; 0: 100
	Files    int       `json:"files,omitempty"`    // files listed per action (counts are of all files); 0: 1,000
	Lines    bool      `json:"lines,omitempty"`    // count lines, unless that takes noticeable time
	Together bool      `json:"together,omitempty"` // put everything into one action
	Lost     bool      `json:"lost,omitempty"`     // as LogQuery.Lost
	// Fold merges files of one directory that changed in the same way into one entry with
	// their number, if not all files can be listed.
	Fold bool `json:"fold,omitempty"`
	// Seq and Skip continue the list where the previous answer ended. If Skip is empty, the
	// list begins after version Seq if Oldest is set, and before it otherwise.
	Seq  uint64       `json:"seq,omitempty"`
	Skip []ActionSpan `json:"skip,omitempty"`
}

// ActionSpan is an action that was already returned, from its first to its last version.
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
	Behind  uint64       `json:"behind,omitempty"` // as in LogAnswer
}

// Action describes what somebody did. Secrets have been removed from its texts, but they may
// contain anything else that people and programs write, so they must be escaped when
// displayed.
type Action struct {
	Key   string    `json:"key"`   // identifies the action as long as the log contains it
	First uint64    `json:"first"` // its first and last version
	Last  uint64    `json:"last"`
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Actor is who did it. For a shell job it is the process that the shell started.
	Actor   Actor      `json:"actor"`
	Command string     `json:"command"` // the command that was run, or what was done
	Dir     string     `json:"dir,omitempty"`
	By      []Ancestor `json:"by,omitempty"` // who started it, up to the agent or the terminal
	Client  string     `json:"client,omitempty"`
	Asked   string     `json:"asked,omitempty"` // the beginning of the prompt
	AskedAt time.Time  `json:"asked_at,omitzero"`
	Began   string     `json:"began,omitempty"` // the beginning of the session's first prompt
	Plan    string     `json:"plan,omitempty"`
	Failed  bool       `json:"failed,omitempty"` // the tool call failed
	Left    int        `json:"left,omitempty"`   // paths that an undo did not change

	Git []GitOp `json:"git,omitempty"` // what the action did to git's own files

	Files    []ActionFile `json:"files"`
	Count    int          `json:"count"` // number of files, including those not listed
	Added    int          `json:"added"` // lines
	Removed  int          `json:"removed"`
	Partly   bool         `json:"partly,omitempty"`   // not all lines were counted
	Ignored  int          `json:"ignored,omitempty"`  // how many of Count are ignored by git
	Fleeting int          `json:"fleeting,omitempty"` // files that were created and deleted again
	Same     int          `json:"same,omitempty"`     // files that were written but have their old content
	Versions int          `json:"versions"`
	// TakenBack lists the plans that undid some of the action, newest first. Back means that
	// all of it was undone.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
	Back      bool        `json:"back,omitempty"`
	// Least means that only the newest of the action's thousands of versions were examined,
	// so the counts of files and lines cover only those.
	Least bool `json:"least,omitempty"`
}

// NoEffect reports whether the action had no lasting effect, because it removed the files that
// it created, and the files that it wrote have their old content. The log shows such actions
// only on request.
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
	FileMode     = "mode" // permissions, owner or attributes only
)

// ActionFile describes what happened to one file.
type ActionFile struct {
	Path    []byte    `json:"path"`
	From    []byte    `json:"from,omitempty"` // renamed
	Change  string    `json:"change"`
	Dir     bool      `json:"dir,omitempty"`
	Below   int       `json:"below,omitempty"`  // number of files in a renamed, deleted or folded directory
	Folded  bool      `json:"folded,omitempty"` // the entry stands for these files, not for the directory itself
	Added   int       `json:"added,omitempty"`
	Removed int       `json:"removed,omitempty"`
	Counted bool      `json:"counted,omitempty"` // Added and Removed are known
	Binary  bool      `json:"binary,omitempty"`
	Ignored bool      `json:"ignored,omitempty"`
	Size    int64     `json:"size"`
	Before  uint64    `json:"before,omitempty"`  // version before the change; 0 if there is none
	Seq     uint64    `json:"seq"`               // version after the change
	By      string    `json:"by,omitempty"`      // name of the process, if it is not the action's
	Command string    `json:"command,omitempty"` // if Together is set, the command that changed it last
	Time    time.Time `json:"time"`
	Also    string    `json:"also,omitempty"`    // who else changed it meanwhile
	Missing string    `json:"missing,omitempty"` // why the content is not stored
	Lost    string    `json:"lost,omitempty"`    // as Version.Lost
	// TakenBack lists the plans that undid the change or some of its edits, newest first.
	// Plans that were themselves undone are left out.
	TakenBack []TakenBack `json:"taken_back,omitempty"`
}

// TakenBack is a plan that undid a change.
type TakenBack struct {
	Plan  string `json:"plan"`
	Kind  string `json:"kind"`            // undo, redo, revert or restore
	Seq   uint64 `json:"seq"`             // its number in the log; 0 if it is not in the log yet
	Edits []int  `json:"edits,omitempty"` // for a file, only these edits were undone
	Part  bool   `json:"part,omitempty"`  // not all of its edits were undone
	Files int    `json:"files,omitempty"` // for an action, the number of its files that were undone
}

// Whole reports whether the change was undone entirely.
func (t TakenBack) Whole() bool { return !t.Part && len(t.Edits) == 0 }

// MTakenBack takes a TakenBackQuery and returns a TakenBackAnswer with the plans that undid
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
