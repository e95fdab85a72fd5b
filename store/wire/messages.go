package wire

import (
	"encoding/json"
	"time"
)

// Methods of the store daemon, with the structs of request and answer. "body" is raw bytes
// sent in addition to the JSON, because file content need not be UTF-8.
const (
	MHello      = "hello"       // Hello → HelloAnswer; first message of every connection
	MAttach     = "attach"      // Attach + the source descriptor (SCM_RIGHTS) → HeartbeatAnswer; from mountd
	MHeartbeat  = "heartbeat"   // Heartbeat → HeartbeatAnswer; from mountd
	MDetach     = "detach"      // Detach → Empty; an orderly end of mountd
	MStatus     = "status"      // Empty → Status
	MShutdown   = "shutdown"    // Empty → Empty
	MLog        = "log"         // LogQuery → LogAnswer
	MShow       = "show"        // ShowQuery → Version, body: the content
	MDiff       = "diff"        // DiffQuery → DiffAnswer, body: unified diff
	MBlame      = "blame"       // ShowQuery → BlameAnswer, body: the text
	MPlan       = "plan"        // PlanRequest → Plan: revert, undo, redo, restore; nothing is written yet
	MPlanThen   = "plan.then"   // PlanRequest → Then: the tree that a restore would produce, to restore it on another machine
	MPlanWanted = "plan.wanted" // PlanRequest with Then → Wanted
	MPlanTaken  = "plan.taken"  // PlanRequest → Elsewhere, body: its contents: the changes that an undo would reverse, to undo them on another machine
	MPlanOpen   = "plan.open"   // Empty → OpenPlans: plans left unfinished
	MPlanFetch  = "plan.fetch"  // PlanFetch → PlanContents, body: the contents
	MPlanDone   = "plan.done"   // PlanDone → Empty: the steps that the client carried out
	MRead       = "read"        // ReadRequest → ReadAnswer, body: the text for the reader
	MShown      = "shown"       // Shown → ShownAnswer, body: delivered text; makes a pending entry under a tool_use_id
	MCommit     = "commit"      // Commit → CommitAnswer: the text that the model actually received
	MOwnEdit    = "own-edit"    // OwnEdit → Empty, body: the new content; an agent's own edit through a cachebro tool
	MGiven      = "given"       // GivenQuery → GivenAnswer: which of the lines a session received as cachebro's own words
	MSession    = "session"     // SessionEvent → SessionAnswer
	MShared     = "shared"      // SessionQuery → SharedSession, for another project's daemon
	MToolBegin  = "tool.begin"  // ToolCall → ToolBeginAnswer
	MToolEnd    = "tool.end"    // ToolCall → Empty
	MToolPlace  = "tool.place"  // ToolCall → ToolPlace: where the client's hook saw the call
	MWorkingSet = "working-set" // WorkingSetQuery → WorkingSet
	MRecovery   = "recovery"    // SessionQuery → Recovery
	MMetrics    = "metrics"     // MetricsQuery → Metrics
	MSpend      = "spend"       // Spend → SpendAnswer: tokens delivered or injected without MRead; if Sent is 0, the tokens of the body are counted
	MStore      = "store"       // StoreRequest → StoreAnswer: prune, gc, du, fsck, purge
	MExport     = "export"      // Empty + a pipe's descriptor (SCM_RIGHTS) → Totals; the history is written to the pipe
	MIngest     = "ingest"      // Ingest → Ingest, body: content: the pre-image of a file that a cachebro tool is about to write
)

// Empty is a request or answer without fields.
type Empty struct{}

// Hello opens a connection.
type Hello struct {
	Version string `json:"version"`
	Client  string `json:"client"` // cli, mcp, hook, mountd
	PID     int    `json:"pid"`
	Root    string `json:"root"` // absolute path of the project's root
}

// HelloAnswer is the daemon's answer. A daemon of another version answers with its own
// version and then serves only a few methods, so that an upgraded client can replace it.
type HelloAnswer struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Root    string `json:"root"`
	State   string `json:"state"` // state directory
	Mounted bool   `json:"mounted"`
}

// Attach introduces mountd to the daemon.
type Attach struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"`
	InPlace    bool   `json:"in_place"`
	Outside    bool   `json:"outside"`             // processes may write to the project bypassing the mount
	Watched    bool   `json:"watched,omitempty"`   // such writes are spooled
	Missed     uint64 `json:"missed,omitempty"`    // how often such writes may have been missed
	Unmounted  bool   `json:"unmounted,omitempty"` // the mountpoint shows the plain project; only copies of the mount at other places, and processes inside the mount, are served
	Spool      string `json:"spool"`               // directory
}

// Heartbeat is sent by mountd every few seconds and after changes.
type Heartbeat struct {
	Head      uint64       `json:"head"` // last spool sequence number
	Outside   bool         `json:"outside"`
	Watched   bool         `json:"watched,omitempty"`   // as in Attach
	Missed    uint64       `json:"missed,omitempty"`    // as in Attach
	Unmounted bool         `json:"unmounted,omitempty"` // as in Attach
	Capture   CaptureState `json:"capture"`
}

// CaptureState reports whether mountd captures everything.
type CaptureState struct {
	State     string    `json:"state"` // capturing, stopped
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Queue     int       `json:"queue"`
	Spooled   int64     `json:"spooled_bytes"`
	MaxSpool  int64     `json:"max_spool_bytes,omitempty"` // above this, processes that destroy contents have to wait; 0: an older mountd
	Gaps      int64     `json:"gaps"`                      // number of gaps that are not in the log yet
	Inodes    int64     `json:"inodes"`
	Handles   int64     `json:"handles"`
	HeapBytes int64     `json:"heap_bytes"`
}

// HeartbeatAnswer tells mountd the state of the store.
type HeartbeatAnswer struct {
	Healthy       bool      `json:"healthy"`
	Reason        string    `json:"reason,omitempty"`
	Ingested      uint64    `json:"ingested"`                // spool sequence number
	BaselineStart time.Time `json:"baseline_start,omitzero"` // when the last complete baseline began
	Sends         bool      `json:"sends,omitempty"`         // the history goes to a bucket
}

// Detach tells the daemon that mountd is exiting.
type Detach struct {
	PID int `json:"pid"`
}

// Status is the state of a project.
type Status struct {
	Root       string         `json:"root"`
	State      string         `json:"state"`
	Version    string         `json:"version"`
	DaemonPID  int            `json:"daemon_pid"`
	Mounted    bool           `json:"mounted"`
	Mountpoint string         `json:"mountpoint,omitempty"`
	MountdPID  int            `json:"mountd_pid,omitempty"`
	Outside    bool           `json:"outside"`
	Watched    bool           `json:"watched,omitempty"` // writes bypassing the mount are recorded as they happen
	Capture    CaptureState   `json:"capture"`
	Store      StoreState     `json:"store"`
	Baseline   Baseline       `json:"baseline"`
	Gaps       []Gap          `json:"gaps,omitempty"` // newest first, at most 20
	GapCount   int64          `json:"gap_count"`
	Sessions   int            `json:"sessions"`          // live sessions
	Unheard    string         `json:"unheard,omitempty"` // today's newest session that is known only from its processes' environment
	Index      map[string]any `json:"index,omitempty"`
	Results    *ResultsState  `json:"results,omitempty"`
	Remote     *RemoteState   `json:"remote,omitempty"` // nil: the history stays on this machine
	Git        *GitKept       `json:"git,omitempty"`
}

// StoreState reports whether the daemon stores everything.
type StoreState struct {
	Healthy   bool   `json:"healthy"`
	Reason    string `json:"reason,omitempty"`
	Versions  uint64 `json:"versions"`
	Files     uint64 `json:"files"` // live paths with content
	DiskBytes int64  `json:"disk_bytes"`
	FreeBytes int64  `json:"free_bytes"`
	Lag       uint64 `json:"lag"`              // spool records not yet ingested
	Memory    string `json:"memory,omitempty"` // message that processes were killed because memory ran out
	HeapBytes int64  `json:"heap_bytes"`
}

// Baseline is the progress of the baseline scan.
type Baseline struct {
	Running bool      `json:"running"`
	Done    bool      `json:"done"`
	Files   int       `json:"files"` // files examined so far
	Total   int       `json:"total"` // files known so far
	Bytes   int64     `json:"bytes"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Gap is content that was not stored although it should have been.
type Gap struct {
	Path   []byte    `json:"path"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

// Actor describes who made a change.
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

// Version is an entry of the version log. Paths are bytes (base64 in JSON) because they need
// not be UTF-8.
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
	Made      uint64    `json:"made,omitempty"`   // for a rename in an atomic save: Seq of the first version of From, which the same process had made
	Number    int       `json:"number,omitempty"` // 1-based position in the history of its path, if the query was for one path
	Lost      string    `json:"lost,omitempty"`   // describes others' work that this version overwrote, see LogQuery.Lost
}

// LogQuery selects versions. The zero value selects everything, newest first.
type LogQuery struct {
	Path      []byte    `json:"path,omitempty"` // one file, following renames, or a directory
	Session   string    `json:"session,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
	ToolCall  string    `json:"tool_call,omitempty"`
	PID       uint32    `json:"pid,omitempty"`
	Comm      string    `json:"comm,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Before    uint64    `json:"before,omitempty"` // only lower Seq (for paging)
	After     uint64    `json:"after,omitempty"`
	Ops       []string  `json:"ops,omitempty"`
	Oldest    bool      `json:"oldest_first,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 0: 1,000
	Baselines bool      `json:"baselines,omitempty"`
	Lost      bool      `json:"lost,omitempty"` // only lost updates, in which a session overwrote lines of others that it did not know of
}

// LogAnswer is one page.
type LogAnswer struct {
	Versions []Version `json:"versions"`
	More     bool      `json:"more"`
	Gaps     []Gap     `json:"gaps,omitempty"`    // within the requested range
	Notices  []Notice  `json:"notices,omitempty"` // "node_modules (excluded) was deleted by rm (pid 7)"
	Behind   uint64    `json:"behind,omitempty"`  // approximate number of changes recorded but not in the log yet
}

// Notice is a line of the log that is not a version.
type Notice struct {
	Time  time.Time `json:"time"`
	Text  string    `json:"text"`
	Actor Actor     `json:"actor"`
}

// ShowQuery names a version by Seq, by path and "@N" number, or by path and time. If only the
// path is set, it names the newest version.
type ShowQuery struct {
	Path   []byte    `json:"path,omitempty"`
	Seq    uint64    `json:"seq,omitempty"`
	Number int       `json:"number,omitempty"` // 1-based position in the path's history; negative: counted back from the newest
	At     time.Time `json:"at,omitzero"`
}

// DiffQuery asks for a diff between two versions of a path. A zero To means the file as it is
// now. A zero From means the version before the newest change.
type DiffQuery struct {
	Path    []byte    `json:"path,omitempty"` // "" with Since: the whole tree
	From    ShowQuery `json:"from,omitzero"`
	New     bool      `json:"new,omitempty"` // diff To against nothing
	To      ShowQuery `json:"to,omitzero"`
	Since   time.Time `json:"since,omitzero"`
	Moments bool      `json:"moments,omitempty"` // From and To are points in time for the whole subtree of Path; a zero To is now
	Context int       `json:"context,omitempty"` // 0: 3
}

// DiffAnswer summarises a diff.
type DiffAnswer struct {
	Files   int  `json:"files"`
	Added   int  `json:"added"`
	Removed int  `json:"removed"`
	Binary  bool `json:"binary,omitempty"`
}

// BlameAnswer gives, for each line of the body's text in order, the version that wrote it, as
// an index into Versions.
type BlameAnswer struct {
	Versions []Version `json:"versions"`
	Lines    []int     `json:"lines"`
}

// PlanRequest asks for a plan to undo something. Kind is revert (Path with Steps or Version),
// undo, redo, or restore (Paths or the whole tree at At). For the unfinished plan named by
// Plan, it is resume or rollback.
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
	Action   uint64    `json:"action,omitempty"` // undo the action, as shown by log, that this version belongs to
	// Edits restricts the undo to these edits.
	Edits []FileEdits `json:"edits,omitempty"`
	Last  bool        `json:"last,omitempty"`
	Asker string      `json:"asker,omitempty"` // the session that the command runs in
	Since time.Time   `json:"since,omitzero"`
	// After and Before restrict the plan to versions between these numbers, in a history that
	// several machines wrote; 0 means no bound.
	After  uint64    `json:"after,omitempty"`
	Before uint64    `json:"before,omitempty"`
	At     ShowQuery `json:"at,omitzero"`
	Plan   string    `json:"plan,omitempty"`   // for redo, the plan to reverse; "": the last one
	GitOp  uint64    `json:"git_op,omitempty"` // for MGitPlan, the operation to undo
	// GitBefore is, for MGitPlan, an operation; the last operation before it is undone.
	GitBefore uint64 `json:"git_before,omitempty"`
	Merge     bool   `json:"merge,omitempty"`
	Force     bool   `json:"force,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"` // do not journal the plan
	// Contents is, for a dry run, a file. Its contents before and after the plan are sent in
	// the answer's body, see Plan.Contents.
	Contents []byte `json:"contents,omitempty"`
	// Leave lists lines that the plan must not change.
	Leave []LeftLines `json:"leave,omitempty"`
	// Elsewhere holds the changes of another machine that are to be undone.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Then holds the state of another machine that is to be restored. The contents of
	// Then.Sent are in the body of the request, concatenated.
	Then *Then `json:"then,omitempty"`
	// The following fields are for plans of the user's own history. ActionKey undoes the
	// action that has this key in a project. Project restricts the plan to sessions that
	// worked in this project. Beside is the project's plan that this one accompanies; a redo
	// reverses the plan that accompanied it.
	ActionKey string `json:"action_key,omitempty"`
	Project   string `json:"project,omitempty"`
	Beside    string `json:"beside,omitempty"`
}

// Then is a tree at a point in time, as recorded in another machine's history.
type Then struct {
	Title string      `json:"title"`
	Files []ThenEntry `json:"files"`
	Sent  []int64     `json:"sent,omitempty"` // sizes of the contents that are sent along
}

// ThenEntry is one path of that tree.
type ThenEntry struct {
	Path   []byte `json:"path"`
	Mode   uint32 `json:"mode,omitempty"` // st_mode; 0: the path did not exist
	Size   int64  `json:"size,omitempty"`
	Target []byte `json:"target,omitempty"` // target of a symlink
	Hash   string `json:"hash,omitempty"`   // hash of a regular file's content
	Lost   string `json:"lost,omitempty"`   // why the path's state is not known
}

// Wanted lists the contents that a restore needs and this history lacks.
type Wanted struct {
	Hashes []string `json:"hashes"`
	Size   int64    `json:"size"` // total in bytes
}

// Elsewhere is a set of changes made on another machine. The body of the request has, for
// each file, the content of Was followed by that of Want.
type Elsewhere struct {
	Title string          `json:"title"`
	Files []ElsewhereFile `json:"files"`
}

// ElsewhereFile is the change of one path.
type ElsewhereFile struct {
	Path []byte        `json:"path"`
	Was  ElsewhereSide `json:"was"`            // after the change
	Want ElsewhereSide `json:"want"`           // before the change
	Lost string        `json:"lost,omitempty"` // why that is not known
}

// ElsewhereSide is the state of a file at one point in time.
type ElsewhereSide struct {
	Mode   uint32 `json:"mode,omitempty"` // st_mode; 0: the path did not exist
	Size   int64  `json:"size,omitempty"` // size of its content in the body
	Target []byte `json:"target,omitempty"`
}

// FileEdits selects edits between two versions of a file, by their index among the edits that
// package diff finds between the contents.
type FileEdits struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Which  []int  `json:"which"`
}

// LeftLines selects lines of one file that a plan must not change. Stay lists lines that the
// plan must not remove, Out lists lines that it must not add. They are counted from 0 in the
// diff (package diff) between the file now and after the whole plan.
type LeftLines struct {
	Path []byte `json:"path"`
	Stay []int  `json:"stay,omitempty"`
	Out  []int  `json:"out,omitempty"`
}

// Plan is journalled by the daemon and carried out by the client through the mount, step by
// step.
type Plan struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Title     string     `json:"title"` // describes for the preview what is undone
	Steps     []PlanStep `json:"steps"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"` // cannot be restored (too large, pruned, gap)
	Begun     time.Time  `json:"begun,omitzero"`
	// Resume means that a client was stopped half-way. Done lists the steps that it had
	// reported. Steps whose result already exists count as done as well.
	Resume bool  `json:"resume,omitempty"`
	Done   []int `json:"done,omitempty"`
	// Cut is, for a rollback, the interrupted plan.
	Cut *Plan `json:"cut,omitempty"`
	// Partly means that lines were counted only for the first steps.
	Partly bool `json:"partly,omitempty"`
	// Contents describes the body of the answer.
	Contents *PlannedContents `json:"plan_contents,omitempty"`
	// Git describes what the same actor did to git's own files, which an undo does not
	// change. GitOp is that operation.
	Git   string `json:"git,omitempty"`
	GitOp uint64 `json:"git_op,omitempty"`
	// Session and Prompt are, for an undo by session or prompt, the resolved ids.
	Session string `json:"session,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	// For an undo of one action, ActionKey is its key, Action its last version and ActionEnd
	// the time of that version. Of is the plan that a redo reverses.
	ActionKey string    `json:"action_key,omitempty"`
	Action    uint64    `json:"action,omitempty"`
	ActionEnd time.Time `json:"action_end,omitzero"`
	Of        string    `json:"of,omitempty"`
}

// PlannedContents describes a file before and after a plan. The body holds both contents,
// one after the other.
type PlannedContents struct {
	Was  bool   `json:"was,omitempty"` // the file exists before the plan
	Will bool   `json:"will,omitempty"`
	Old  int64  `json:"old,omitempty"` // size of the content before
	Why  string `json:"why,omitempty"` // why the contents are not available
	// Lines means that single lines can be left out, see PlanRequest.Leave.
	Lines bool `json:"lines,omitempty"`
}

// OpenPlans lists the plans that no living client is carrying out, without steps, oldest
// first.
type OpenPlans struct {
	Plans []Plan `json:"plans,omitempty"`
}

// PlanStep is one step. Do is write, delete, mkdir, rmdir, rename, symlink, chmod, link or exchange.
type PlanStep struct {
	N       int    `json:"n"`
	Do      string `json:"do"`
	Path    []byte `json:"path"`
	To      []byte `json:"to,omitempty"`     // rename, link, exchange
	Target  []byte `json:"target,omitempty"` // symlink
	Mode    uint32 `json:"mode,omitempty"`
	Mtime   int64  `json:"mtime,omitempty"` // ns; set if the content returns to an earlier state
	Size    int64  `json:"size,omitempty"`
	Hash    string `json:"hash,omitempty"`
	Expect  string `json:"expect,omitempty"` // hex hash that the file must have now, or "absent"; "" allows any
	ExpMode uint32 `json:"exp_mode,omitempty"`
	Added   int    `json:"added,omitempty"`
	Removed int    `json:"removed,omitempty"`
	Apart   bool   `json:"apart,omitempty"` // give the path a file of its own, not shared with its other names
	Ino     uint64 `json:"ino,omitempty"`   // inode of the directory that is renamed or exchanged
	Owned   bool   `json:"owned,omitempty"` // the file gets the owner UID and GID; otherwise set-id bits are not set
	UID     uint32 `json:"uid,omitempty"`
	GID     uint32 `json:"gid,omitempty"`
	Attrs   []byte `json:"attrs,omitempty"` // attributes to set, as an attrs.Set; if empty, those of the replaced file
}

// Conflict is a path that a plan does not change, and why.
type Conflict struct {
	Path  []byte    `json:"path"`
	Why   string    `json:"why"`
	Actor Actor     `json:"actor,omitzero"`
	Time  time.Time `json:"time,omitzero"`
}

// PlanFetch asks for the contents of steps. The answer has at least the first content, and
// further ones as long as they are small.
type PlanFetch struct {
	ID string `json:"id"`
	N  []int  `json:"n"`
}

// PlanContents gives the sizes of the contents in the body, which are those of the first
// requested steps, concatenated.
type PlanContents struct {
	Sizes []int `json:"sizes"`
}

// PlanDone reports one or more steps. Finished ends the plan.
type PlanDone struct {
	ID       string     `json:"id"`
	Done     []int      `json:"done,omitempty"`
	Failed   []Conflict `json:"failed,omitempty"`
	Finished bool       `json:"finished"`
	Watched  bool       `json:"watched,omitempty"` // the recorder of changes outside of projects records the steps although nothing is mounted
}

// StoreRequest names an operation in Do: prune, gc, du, fsck or purge. gc with the argument
// "own" does not touch other projects. prune with DryRun drops nothing and reports what it
// would drop; prune with the Digest from that answer drops only if it would still drop the
// same.
type StoreRequest struct {
	Do     string   `json:"do"`
	Keep   int      `json:"keep,omitempty"`
	Path   []byte   `json:"path,omitempty"`
	Args   []string `json:"args,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"`
	Digest string   `json:"digest,omitempty"`
}

// Totals sums up an exported history.
type Totals struct {
	Versions uint64 `json:"versions"`
	Contents uint64 `json:"contents"`
	Bytes    int64  `json:"bytes"`   // of the contents, uncompressed
	Records  uint64 `json:"records"` // sessions, tool calls, notes and everything else
}

// StoreAnswer has Text for the user and Facts for scripts.
type StoreAnswer struct {
	Text  string          `json:"text"`
	OK    bool            `json:"ok"`
	Facts json.RawMessage `json:"facts,omitempty"`
}

// Ingest sends the content that a cachebro tool is about to overwrite, or that it wrote while
// nothing was mounted. Kept in the answer is true if the content is in the history or the
// mount will record it.
type Ingest struct {
	Path  []byte `json:"path"`
	Seq   uint64 `json:"seq,omitempty"`
	PID   int    `json:"pid,omitempty"`   // the process that wrote the file, if the body is the written content
	Class string `json:"class,omitempty"` // tracked, ignored or excluded
	Kept  bool   `json:"kept,omitempty"`
}
