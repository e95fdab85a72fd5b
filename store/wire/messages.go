package wire

import (
	"encoding/json"
	"time"
)

// Methods of the store daemon. Requests and answers are the structs named
// beside them; "body" is raw bytes that travel beside the JSON, because file
// content need not be UTF-8.
const (
	MHello      = "hello"       // Hello → HelloAnswer; first message of every connection
	MAttach     = "attach"      // Attach + the source descriptor (SCM_RIGHTS) → HeartbeatAnswer; from mountd
	MHeartbeat  = "heartbeat"   // Heartbeat → HeartbeatAnswer; from mountd
	MDetach     = "detach"      // Detach → Empty; mountd ends in order
	MStatus     = "status"      // Empty → Status
	MShutdown   = "shutdown"    // Empty → Empty
	MLog        = "log"         // LogQuery → LogAnswer
	MShow       = "show"        // ShowQuery → Version, body: the content
	MDiff       = "diff"        // DiffQuery → DiffAnswer, body: unified diff
	MBlame      = "blame"       // ShowQuery → BlameAnswer, body: the text; who wrote which of its lines
	MPlan       = "plan"        // PlanRequest → Plan: revert, undo, redo, restore; nothing is written yet
	MPlanThen   = "plan.then"   // PlanRequest → Then; what a restore means, to bring another machine's tree to that moment
	MPlanWanted = "plan.wanted" // PlanRequest with Then → Wanted
	MPlanTaken  = "plan.taken"  // PlanRequest → Elsewhere, body: its contents; what an undo means, to take it back on another machine
	MPlanOpen   = "plan.open"   // Empty → OpenPlans: what was left half-done
	MPlanFetch  = "plan.fetch"  // PlanFetch → PlanContents, body: the contents
	MPlanDone   = "plan.done"   // PlanDone → Empty: what the client wrote
	MRead       = "read"        // ReadRequest → ReadAnswer, body: the text for the reader
	MShown      = "shown"       // Shown → ShownAnswer, body: delivered text: pending entry under a tool_use_id
	MCommit     = "commit"      // Commit → Empty: what the model really got
	MOwnEdit    = "own-edit"    // OwnEdit → Empty, body: the new content: the agent's own edit through our tool
	MGiven      = "given"       // GivenQuery → GivenAnswer: which of some lines a session was given as our own words
	MSession    = "session"     // SessionEvent → SessionAnswer
	MShared     = "shared"      // SessionQuery → SharedSession, for another project's daemon
	MToolBegin  = "tool.begin"  // ToolCall → ToolBeginAnswer
	MToolEnd    = "tool.end"    // ToolCall → Empty
	MToolPlace  = "tool.place"  // ToolCall → ToolPlace: where the client's hook saw the call
	MWorkingSet = "working-set" // WorkingSetQuery → WorkingSet
	MRecovery   = "recovery"    // SessionQuery → Recovery
	MMetrics    = "metrics"     // MetricsQuery → Metrics
	MSpend      = "spend"       // Spend → SpendAnswer: tokens delivered or injected outside of MRead; body: a text whose tokens are Sent where Sent is 0
	MStore      = "store"       // StoreRequest → StoreAnswer: prune, gc, du, fsck, purge
	MExport     = "export"      // Empty + a pipe's descriptor (SCM_RIGHTS) → Totals; the history goes through the pipe
	MIngest     = "ingest"      // Ingest → Ingest: the pre-image of a file that a tool of ours is about to write, body: its content
)

// Empty is the request or answer without fields.
type Empty struct{}

// Hello opens a connection.
type Hello struct {
	Version string `json:"version"`
	Client  string `json:"client"` // cli, mcp, hook, mountd
	PID     int    `json:"pid"`
	Root    string `json:"root"` // absolute path of the project's root
}

// HelloAnswer: a daemon of another version answers with its own and goes on
// only for status and shutdown, so that an upgraded client can replace it.
type HelloAnswer struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Root    string `json:"root"`
	State   string `json:"state"` // state directory
	Mounted bool   `json:"mounted"`
}

// Attach is mountd's introduction.
type Attach struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"`
	InPlace    bool   `json:"in_place"`
	Outside    bool   `json:"outside"`             // somebody may write underneath
	Watched    bool   `json:"watched,omitempty"`   // what is done underneath is spooled
	Unmounted  bool   `json:"unmounted,omitempty"` // copies of the mount elsewhere and processes inside are served; the mountpoint shows the plain project
	Spool      string `json:"spool"`               // directory
}

// Heartbeat is sent by mountd every few seconds and when something changed.
type Heartbeat struct {
	Head      uint64       `json:"head"` // last spool sequence number
	Outside   bool         `json:"outside"`
	Watched   bool         `json:"watched,omitempty"`   // as in Attach
	Missed    uint64       `json:"missed,omitempty"`    // how often something that was done underneath was missed
	Unmounted bool         `json:"unmounted,omitempty"` // as in Attach
	Capture   CaptureState `json:"capture"`
}

// CaptureState is mountd's side of "is everything kept?".
type CaptureState struct {
	State     string    `json:"state"` // capturing, stopped
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Queue     int       `json:"queue"`
	Spooled   int64     `json:"spooled_bytes"`
	MaxSpool  int64     `json:"max_spool_bytes,omitempty"` // above it who destroys contents waits; 0: an older mountd
	Gaps      int64     `json:"gaps"`                      // not yet in the log
	Inodes    int64     `json:"inodes"`
	Handles   int64     `json:"handles"`
	HeapBytes int64     `json:"heap_bytes"`
}

// HeartbeatAnswer tells mountd how the store does.
type HeartbeatAnswer struct {
	Healthy       bool      `json:"healthy"`
	Reason        string    `json:"reason,omitempty"`
	Ingested      uint64    `json:"ingested"`                // spool sequence number
	BaselineStart time.Time `json:"baseline_start,omitzero"` // set once the baseline that began then is complete
}

// Detach says goodbye.
type Detach struct {
	PID int `json:"pid"`
}

// Status of the project.
type Status struct {
	Root       string         `json:"root"`
	State      string         `json:"state"`
	Version    string         `json:"version"`
	DaemonPID  int            `json:"daemon_pid"`
	Mounted    bool           `json:"mounted"`
	Mountpoint string         `json:"mountpoint,omitempty"`
	MountdPID  int            `json:"mountd_pid,omitempty"`
	Outside    bool           `json:"outside"`
	Watched    bool           `json:"watched,omitempty"` // what is done underneath is recorded as it happens
	Capture    CaptureState   `json:"capture"`
	Store      StoreState     `json:"store"`
	Baseline   Baseline       `json:"baseline"`
	Gaps       []Gap          `json:"gaps,omitempty"` // newest first, at most 20
	GapCount   int64          `json:"gap_count"`
	Sessions   int            `json:"sessions"`          // live ones
	Unheard    string         `json:"unheard,omitempty"` // the newest session that only its processes' environment named, if it is of today
	Index      map[string]any `json:"index,omitempty"`
	Results    *ResultsState  `json:"results,omitempty"`
	Remote     *RemoteState   `json:"remote,omitempty"` // nil: the history stays here
	Git        *GitKept       `json:"git,omitempty"`
}

// StoreState is the daemon's side.
type StoreState struct {
	Healthy   bool   `json:"healthy"`
	Reason    string `json:"reason,omitempty"`
	Versions  uint64 `json:"versions"`
	Files     uint64 `json:"files"` // live paths with content
	DiskBytes int64  `json:"disk_bytes"`
	FreeBytes int64  `json:"free_bytes"`
	Lag       uint64 `json:"lag"`              // spool records not yet ingested
	Memory    string `json:"memory,omitempty"` // that processes were killed for want of memory, in words
	HeapBytes int64  `json:"heap_bytes"`
}

// Baseline progress.
type Baseline struct {
	Running bool      `json:"running"`
	Done    bool      `json:"done"`
	Files   int       `json:"files"` // looked at so far
	Total   int       `json:"total"` // known so far
	Bytes   int64     `json:"bytes"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Gap is content that was not kept.
type Gap struct {
	Path   []byte    `json:"path"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

// Actor is who did it.
type Actor struct {
	PID       uint32 `json:"pid,omitempty"`
	UID       uint32 `json:"uid"`
	Comm      string `json:"comm,omitempty"`
	Args      string `json:"args,omitempty"`
	Session   string `json:"session,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Prompt    string `json:"prompt,omitempty"`
	ToolCall  string `json:"tool_call,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Uncertain bool   `json:"uncertain,omitempty"`
	Late      bool   `json:"late,omitempty"` // written after its tool call had ended
}

// Version is an entry of the version log. Paths are bytes (base64 in JSON):
// they need not be UTF-8.
type Version struct {
	Seq       uint64    `json:"seq"`
	Path      []byte    `json:"path"`
	Op        string    `json:"op"` // create, write, truncate, rename, exchange, link, unlink, symlink, mkdir, rmdir, chmod, mknod, baseline, outside, moved, seen
	Class     string    `json:"class"`
	From      []byte    `json:"from,omitempty"`
	To        []byte    `json:"to,omitempty"`
	Target    []byte    `json:"target,omitempty"`
	Hash      string    `json:"hash,omitempty"` // hex SHA-256
	NoContent string    `json:"no_content,omitempty"`
	Size      int64     `json:"size"`
	Mode      uint32    `json:"mode"` // st_mode
	Time      time.Time `json:"time"`
	Mtime     time.Time `json:"mtime,omitzero"`
	Actor     Actor     `json:"actor"`
	Prev      uint64    `json:"prev,omitempty"`
	Plan      string    `json:"plan,omitempty"`
	Idle      bool      `json:"idle,omitempty"`
	Deleted   bool      `json:"deleted,omitempty"`
	Made      uint64    `json:"made,omitempty"`   // of a rename: Seq from which on the same process had made From, as in an atomic save
	Number    int       `json:"number,omitempty"` // 1-based position in the history of its path, where one path was asked for
	Lost      string    `json:"lost,omitempty"`   // what it lost of what others had written, see LogQuery.Lost
}

// LogQuery: the zero value is "everything, newest first".
type LogQuery struct {
	Path      []byte    `json:"path,omitempty"` // one file, following renames, or a directory
	Session   string    `json:"session,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
	ToolCall  string    `json:"tool_call,omitempty"`
	PID       uint32    `json:"pid,omitempty"`
	Comm      string    `json:"comm,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Before    uint64    `json:"before,omitempty"` // only Seq below (paging)
	After     uint64    `json:"after,omitempty"`
	Ops       []string  `json:"ops,omitempty"`
	Oldest    bool      `json:"oldest_first,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 0: 1,000
	Baselines bool      `json:"baselines,omitempty"`
	Lost      bool      `json:"lost,omitempty"` // only lost updates: what a session wrote without the lines of others, of which it did not know
}

// LogAnswer is one page.
type LogAnswer struct {
	Versions []Version `json:"versions"`
	More     bool      `json:"more"`
	Gaps     []Gap     `json:"gaps,omitempty"`    // within the asked range
	Notices  []Notice  `json:"notices,omitempty"` // "node_modules (excluded) was deleted by rm (pid 7)"
	Behind   uint64    `json:"behind,omitempty"`  // about how many changes are recorded and not in the log yet
}

// Notice is a line that is not a version.
type Notice struct {
	Time  time.Time `json:"time"`
	Text  string    `json:"text"`
	Actor Actor     `json:"actor"`
}

// ShowQuery names a version: by Seq, by path and "@N" number, or the newest.
type ShowQuery struct {
	Path   []byte    `json:"path,omitempty"`
	Seq    uint64    `json:"seq,omitempty"`
	Number int       `json:"number,omitempty"` // 1-based in the path's history; negative: back from the newest
	At     time.Time `json:"at,omitzero"`
}

// DiffQuery: between two versions of a path; zero To: the file as it is now;
// zero From: the version before the newest change.
type DiffQuery struct {
	Path    []byte    `json:"path,omitempty"` // "" with Since: the whole tree
	From    ShowQuery `json:"from,omitzero"`
	New     bool      `json:"new,omitempty"` // To against nothing
	To      ShowQuery `json:"to,omitzero"`
	Since   time.Time `json:"since,omitzero"`
	Moments bool      `json:"moments,omitempty"` // From and To are moments of all that is below Path; a zero To is now
	Context int       `json:"context,omitempty"` // 0: 3
}

// DiffAnswer sums a diff up.
type DiffAnswer struct {
	Files   int  `json:"files"`
	Added   int  `json:"added"`
	Removed int  `json:"removed"`
	Binary  bool `json:"binary,omitempty"`
}

// BlameAnswer says of each line of the body's text, in order, which version
// wrote it, as an index into Versions.
type BlameAnswer struct {
	Versions []Version `json:"versions"`
	Lines    []int     `json:"lines"`
}

// PlanRequest asks for a plan to take something back. Kind: revert (Path with
// Steps or Version), undo, redo, restore (Paths or the whole tree at At); of a
// plan that was left half-done (Plan): resume, rollback.
type PlanRequest struct {
	Kind     string    `json:"kind"`
	Path     []byte    `json:"path,omitempty"`
	Steps    int       `json:"steps,omitempty"`
	Version  ShowQuery `json:"version,omitzero"`
	Paths    [][]byte  `json:"paths,omitempty"` // globs for undo, paths for restore
	Session  string    `json:"session,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	ToolCall string    `json:"tool_call,omitempty"`
	PID      uint32    `json:"pid,omitempty"`
	Action   uint64    `json:"action,omitempty"` // undo: the action that this version belongs to, as log shows it
	// Edits: undo no more than these.
	Edits []FileEdits `json:"edits,omitempty"`
	Last  bool        `json:"last,omitempty"`
	Asker string      `json:"asker,omitempty"` // the session that the command runs in
	Since time.Time   `json:"since,omitzero"`
	// After and Before: only versions between these numbers, of a history that several
	// machines wrote; 0: no bound.
	After  uint64    `json:"after,omitempty"`
	Before uint64    `json:"before,omitempty"`
	At     ShowQuery `json:"at,omitzero"`
	Plan   string    `json:"plan,omitempty"`   // redo: the plan to take back; "" the last one
	GitOp  uint64    `json:"git_op,omitempty"` // MGitPlan: the operation that is meant
	// GitBefore: MGitPlan: the last before that one
	GitBefore uint64 `json:"git_before,omitempty"`
	Merge     bool   `json:"merge,omitempty"`
	Force     bool   `json:"force,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"` // nothing is journalled
	// Contents: of a dry run, the file whose content before and after it the answer's
	// body holds, see Plan.Contents.
	Contents []byte `json:"contents,omitempty"`
	// Leave: lines of files that stay as they are, though the plan would change them.
	Leave []LeftLines `json:"leave,omitempty"`
	// Elsewhere: undo what another machine did.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Then: restore what another machine had. The contents of Then.Sent lie in the body
	// of the request, one behind the other.
	Then *Then `json:"then,omitempty"`
	// ActionKey: undo of the user's own history: the action that has this key in a
	// project's. Project: only what sessions did that worked there. Beside: it goes with
	// that plan of the project; of a redo: take back what went with it.
	ActionKey string `json:"action_key,omitempty"`
	Project   string `json:"project,omitempty"`
	Beside    string `json:"beside,omitempty"`
}

// Then is what another machine's history knows of a tree at a moment.
type Then struct {
	Title string      `json:"title"`
	Files []ThenEntry `json:"files"`
	Sent  []int64     `json:"sent,omitempty"` // sizes of the contents that come along
}

// ThenEntry is one path there.
type ThenEntry struct {
	Path   []byte `json:"path"`
	Mode   uint32 `json:"mode,omitempty"` // st_mode; 0: it was not there
	Size   int64  `json:"size,omitempty"`
	Target []byte `json:"target,omitempty"` // of a symlink
	Hash   string `json:"hash,omitempty"`   // of a regular file's content
	Lost   string `json:"lost,omitempty"`   // why that is not known
}

// Wanted are contents that a restore needs and this history does not have.
type Wanted struct {
	Hashes []string `json:"hashes"`
	Size   int64    `json:"size"` // of all, in bytes
}

// Elsewhere is what another machine did. The contents of its files lie in the body of the
// request one behind the other, of each file that of Was and then that of Want.
type Elsewhere struct {
	Title string          `json:"title"`
	Files []ElsewhereFile `json:"files"`
}

// ElsewhereFile is what became of one path there.
type ElsewhereFile struct {
	Path []byte        `json:"path"`
	Was  ElsewhereSide `json:"was"`            // what it was made
	Want ElsewhereSide `json:"want"`           // what it was before
	Lost string        `json:"lost,omitempty"` // why that is not known
}

// ElsewhereSide is a file at one moment.
type ElsewhereSide struct {
	Mode   uint32 `json:"mode,omitempty"` // st_mode; 0: it was not there
	Size   int64  `json:"size,omitempty"` // of its content in the body
	Target []byte `json:"target,omitempty"`
}

// FileEdits are some of the edits between two versions of a file: their places, from 0
// on, in what package diff finds between the contents.
type FileEdits struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Which  []int  `json:"which"`
}

// LeftLines are lines of one file: of those that a plan would take away the ones that stay,
// of those that it would bring the ones that stay out. They are counted from 0, in what
// package diff finds between the file now and after the whole plan.
type LeftLines struct {
	Path []byte `json:"path"`
	Stay []int  `json:"stay,omitempty"`
	Out  []int  `json:"out,omitempty"`
}

// Plan is journalled by the daemon and carried out by the client through the
// mountpoint, step by step.
type Plan struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Title     string     `json:"title"` // what is taken back, for the preview
	Steps     []PlanStep `json:"steps"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"` // cannot be brought back (too large, pruned, gap)
	Begun     time.Time  `json:"begun,omitzero"`
	// Resume: a client was stopped half-way. Done holds the steps that it had
	// reported; steps whose result is there already count as done too.
	Resume bool  `json:"resume,omitempty"`
	Done   []int `json:"done,omitempty"`
	// Cut is, of a rollback, the plan that was cut short.
	Cut *Plan `json:"cut,omitempty"`
	// Partly: only of the first steps the lines were counted.
	Partly bool `json:"partly,omitempty"`
	// Contents says what the body of the answer is.
	Contents *PlannedContents `json:"plan_contents,omitempty"`
	// Git says what the same actor did to git's own files, which an undo leaves alone;
	// GitOp is the operation.
	Git   string `json:"git,omitempty"`
	GitOp uint64 `json:"git_op,omitempty"`
	// Session and Prompt are, of an undo by either, the ids that were meant.
	Session string `json:"session,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	// ActionKey is, of an undo of one action, that action's, Action its last version,
	// ActionEnd when it made that, for whom the other two; Of is the plan that a redo
	// takes back.
	ActionKey string    `json:"action_key,omitempty"`
	Action    uint64    `json:"action,omitempty"`
	ActionEnd time.Time `json:"action_end,omitzero"`
	Of        string    `json:"of,omitempty"`
}

// PlannedContents is what a file is before and after a plan. The body has the one behind the
// other.
type PlannedContents struct {
	Was  bool   `json:"was,omitempty"` // it is there before
	Will bool   `json:"will,omitempty"`
	Old  int64  `json:"old,omitempty"` // size of the first
	Why  string `json:"why,omitempty"` // the contents are not to be had: why
	// Lines: single ones can be left, see PlanRequest.Leave.
	Lines bool `json:"lines,omitempty"`
}

// OpenPlans are the plans that no living client carries out: heads, without
// steps, oldest first.
type OpenPlans struct {
	Plans []Plan `json:"plans,omitempty"`
}

// PlanStep: Do is write, delete, mkdir, rmdir, rename, symlink, chmod, link.
type PlanStep struct {
	N       int    `json:"n"`
	Do      string `json:"do"`
	Path    []byte `json:"path"`
	To      []byte `json:"to,omitempty"`     // rename, link, exchange
	Target  []byte `json:"target,omitempty"` // symlink
	Mode    uint32 `json:"mode,omitempty"`
	Mtime   int64  `json:"mtime,omitempty"` // ns; set when the content returns to what it was
	Size    int64  `json:"size,omitempty"`
	Hash    string `json:"hash,omitempty"`
	Expect  string `json:"expect,omitempty"` // hex hash that the file must have now; "absent"; "" any
	ExpMode uint32 `json:"exp_mode,omitempty"`
	Added   int    `json:"added,omitempty"`
	Removed int    `json:"removed,omitempty"`
	Apart   bool   `json:"apart,omitempty"` // give the path a file of its own, not shared with its other names
	Ino     uint64 `json:"ino,omitempty"`   // of the directory that is renamed or exchanged
	Owned   bool   `json:"owned,omitempty"` // UID and GID are whose it is to be; else set-id bits of a file are not given
	UID     uint32 `json:"uid,omitempty"`
	GID     uint32 `json:"gid,omitempty"`
	Attrs   []byte `json:"attrs,omitempty"` // an attrs.Set, what it is to have; none: what the file has whose place it takes
}

// Conflict is a path that a plan leaves alone.
type Conflict struct {
	Path  []byte    `json:"path"`
	Why   string    `json:"why"`
	Actor Actor     `json:"actor,omitzero"`
	Time  time.Time `json:"time,omitzero"`
}

// PlanFetch asks for the contents of steps. The answer has at least the first,
// and as many of the others as are small.
type PlanFetch struct {
	ID string `json:"id"`
	N  []int  `json:"n"`
}

// PlanContents: the body is the contents of the first steps asked for, one
// behind the other.
type PlanContents struct {
	Sizes []int `json:"sizes"`
}

// PlanDone reports one or more steps; Finished ends the plan.
type PlanDone struct {
	ID       string     `json:"id"`
	Done     []int      `json:"done,omitempty"`
	Failed   []Conflict `json:"failed,omitempty"`
	Finished bool       `json:"finished"`
	Watched  bool       `json:"watched,omitempty"` // the net records the steps, although nothing is mounted
}

// StoreRequest: Do is prune, gc, du, fsck, purge; gc with the argument own leaves
// other projects alone. prune with DryRun drops nothing and says what would go; with
// Digest, which that said, it drops only if the same would go.
type StoreRequest struct {
	Do     string   `json:"do"`
	Keep   int      `json:"keep,omitempty"`
	Path   []byte   `json:"path,omitempty"`
	Args   []string `json:"args,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
	Digest string   `json:"digest,omitempty"`
}

// Totals is what an exported history holds.
type Totals struct {
	Versions uint64 `json:"versions"`
	Contents uint64 `json:"contents"`
	Bytes    int64  `json:"bytes"`   // of the contents, as they are
	Records  uint64 `json:"records"` // sessions, tool calls, notes and all else
}

// StoreAnswer: Text for people, Facts for scripts.
type StoreAnswer struct {
	Text  string          `json:"text"`
	OK    bool            `json:"ok"`
	Facts json.RawMessage `json:"facts,omitempty"`
}

// Ingest hands over what a tool of ours is about to write over, or what it wrote
// while nothing is mounted. The answer says whether the content is in the history, or
// the mount will see to that.
type Ingest struct {
	Path  []byte `json:"path"`
	Seq   uint64 `json:"seq,omitempty"`
	PID   int    `json:"pid,omitempty"`   // who wrote it, when the body is what was written
	Class string `json:"class,omitempty"` // tracked, ignored or excluded
	Kept  bool   `json:"kept,omitempty"`
}
