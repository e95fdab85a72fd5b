package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Methods of the store daemon, with the structs of request and answer. "body" is raw bytes sent
// after the JSON, because file content need not be UTF-8.
const (
	MHello      = "hello"       // Hello → HelloAnswer; first message of every connection
	MAttach     = "attach"      // Attach + the source descriptor (SCM_RIGHTS) → HeartbeatAnswer; from mountd
	MHeartbeat  = "heartbeat"   // Heartbeat → HeartbeatAnswer; from mountd
	MDetach     = "detach"      // Detach → Empty; mountd is exiting
	MStatus     = "status"      // Empty → Status
	MShutdown   = "shutdown"    // Empty → Empty
	MLog        = "log"         // LogQuery → LogAnswer
	MShow       = "show"        // ShowQuery → Version, body: content
	MDiff       = "diff"        // DiffQuery → DiffAnswer, body: unified diff
	MBlame      = "blame"       // ShowQuery → BlameAnswer, body: text
	MPlan       = "plan"        // PlanRequest → Plan: revert, undo, redo, restore; nothing is changed yet
	MPlanThere  = "plan.there"  // PlanRequest → Elsewhere: what an undo or restore would change, to do the same in another tree
	MPlanWanted = "plan.wanted" // PlanRequest with Elsewhere → Wanted
	MPlanOpen   = "plan.open"   // Empty → OpenPlans: unfinished plans
	MPlanFetch  = "plan.fetch"  // PlanFetch → PlanContents, body: contents
	MPlanDone   = "plan.done"   // PlanDone → Empty: the steps that the client carried out
	MRead       = "read"        // ReadRequest → ReadAnswer, body: text for the reader
	MShown      = "shown"       // Shown → Empty, body: delivered text; it is pending under a tool_use_id
	MCommit     = "commit"      // Commit → CommitAnswer: the text that the model actually received
	MOwnEdit    = "own-edit"    // OwnEdit → Empty, body: new content; an agent's edit through a cachebro tool
	MForget     = "forget"      // Reader → Reader, with its session if known: the reader no longer has what it was shown
	MGiven      = "given"       // GivenQuery → GivenAnswer: tells which of some lines cachebro itself has sent to a session
	MSession    = "session"     // SessionEvent → SessionAnswer
	MShared     = "shared"      // SessionQuery → what the daemon knows of the session, for another project's daemon; see package sessions
	MToolBegin  = "tool.begin"  // ToolCall → ToolBeginAnswer
	MToolEnd    = "tool.end"    // ToolCall → Empty
	MToolPlace  = "tool.place"  // ToolCall → ToolPlace: the working directory that the client's hook reported
	MWorkingSet = "working-set" // WorkingSetQuery → WorkingSet
	MRecovery   = "recovery"    // SessionQuery → Recovery
	MMetrics    = "metrics"     // MetricsQuery → Metrics
	MSpend      = "spend"       // Spend → SpendAnswer: tokens delivered or injected without MRead; if Sent is 0, the body's tokens are counted
	MStore      = "store"       // StoreRequest → StoreAnswer: prune, gc, du, fsck, purge
	MExport     = "export"      // Empty + a pipe's descriptor (SCM_RIGHTS) → Totals; the history is written to the pipe
	MIngest     = "ingest"      // Ingest → Ingest, body: content of a file before a cachebro tool writes it
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

// HelloAnswer is the daemon's answer. A daemon of another version answers with its own version and
// then serves only a few methods, so that an upgraded client can replace it.
type HelloAnswer struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	Root    string `json:"root"`
	State   string `json:"state"` // state directory
}

// Attach introduces mountd to the daemon.
type Attach struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint"`
	Spool      string `json:"spool"` // spool directory
	Bypass
}

// Bypass describes what can change without going through the mount.
type Bypass struct {
	Outside   bool   `json:"outside"`             // processes may write to the project without going through the mount
	Watched   bool   `json:"watched,omitempty"`   // such writes are spooled
	Missed    uint64 `json:"missed,omitempty"`    // how often such writes may have been missed
	Unmounted bool   `json:"unmounted,omitempty"` // the mountpoint shows the plain project; only processes inside the mount and its copies elsewhere are served
}

// Heartbeat is sent by mountd every few seconds and after changes.
type Heartbeat struct {
	Head uint64 `json:"head"` // last spool sequence number
	Bypass
	Capture CaptureState `json:"capture"`
}

// CaptureState reports whether mountd captures everything.
type CaptureState struct {
	State     string    `json:"state"` // capturing, stopped
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Queue     int       `json:"queue"`
	Spooled   int64     `json:"spooled_bytes"`
	MaxSpool  int64     `json:"max_spool_bytes,omitempty"` // size at which processes that destroy contents have to wait; 0: an older mountd
	Gaps      int64     `json:"gaps"`                      // number of gaps not in the log yet
	Inodes    int64     `json:"inodes"`
	Handles   int64     `json:"handles"`
	HeapBytes int64     `json:"heap_bytes"`
}

// HeartbeatAnswer reports the state of the store to mountd.
type HeartbeatAnswer struct {
	Healthy       bool      `json:"healthy"`
	Reason        string    `json:"reason,omitempty"`
	Ingested      uint64    `json:"ingested"`                // last spool sequence number in the log
	BaselineStart time.Time `json:"baseline_start,omitzero"` // when the last complete baseline began
	Sends         bool      `json:"sends,omitempty"`         // the history is sent to a bucket
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
	Watched    bool           `json:"watched,omitempty"` // writes that bypass the mount are recorded as they happen
	Capture    CaptureState   `json:"capture"`
	Store      StoreState     `json:"store"`
	Baseline   Baseline       `json:"baseline"`
	Gaps       []Gap          `json:"gaps,omitempty"` // newest first, at most 20
	GapCount   int64          `json:"gap_count"`
	Sessions   int            `json:"sessions"`          // live sessions
	Unheard    string         `json:"unheard,omitempty"` // today's newest session that is known only from the environment of its processes
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
	Memory    string `json:"memory,omitempty"` // message if processes were killed because memory ran out
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

// Gap records that content should have been stored and was not.
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
	Late      bool   `json:"late,omitempty"` // written after the tool call ended
}

// Is reports whether author is the process name, pid, agent or tool, or the beginning of the
// session's id.
func (a Actor) Is(author string) bool {
	names := []string{a.Comm, a.Agent, a.Tool, fmt.Sprint(a.PID)}
	if slices.ContainsFunc(names, func(s string) bool { return s != "" && strings.EqualFold(s, author) }) {
		return true
	}
	return a.Session != "" && strings.HasPrefix(a.Session, author)
}

// Version is an entry of the log. Paths are bytes (base64 in JSON) because they need not be UTF-8.
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
	Made      uint64    `json:"made,omitempty"`   // for a rename in an atomic save: Seq of the first version of From
	Number    int       `json:"number,omitempty"` // 1-based position in the history of the path, if the query was for one path
	Lost      string    `json:"lost,omitempty"`   // describes work of others that this version overwrote, see LogQuery.Lost
}

// LogQuery selects versions. The zero value selects everything, newest first.
type LogQuery struct {
	Path      []byte    `json:"path,omitempty"` // one file, following renames, or a directory
	Session   string    `json:"session,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Before    uint64    `json:"before,omitempty"` // only versions with lower Seq (for paging)
	After     uint64    `json:"after,omitempty"`
	Ops       []string  `json:"ops,omitempty"`
	Oldest    bool      `json:"oldest_first,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 0: 1,000
	Baselines bool      `json:"baselines,omitempty"`
	NotOwn    bool      `json:"not_own,omitempty"` // leave out what undos and restores of the asking session changed
	Lost      bool      `json:"lost,omitempty"`    // only lost updates, in which a session overwrote lines of others that it had not seen
}

// LogAnswer is one page.
type LogAnswer struct {
	Versions []Version `json:"versions"`
	More     bool      `json:"more"`
	Gaps     []Gap     `json:"gaps,omitempty"`    // gaps within the requested range
	Notices  []Notice  `json:"notices,omitempty"` // "node_modules (excluded) was deleted by rm (pid 7)"
	Behind   uint64    `json:"behind,omitempty"`  // approximate number of recorded changes that are not in the log yet
}

// Notice is a line of the log that is not a version.
type Notice struct {
	Time  time.Time `json:"time"`
	Text  string    `json:"text"`
	Actor Actor     `json:"actor"`
}

// ShowQuery names a version by Seq, by path and "@N" number, or by path and time. A path alone
// names its newest version.
type ShowQuery struct {
	Path   []byte    `json:"path,omitempty"`
	Seq    uint64    `json:"seq,omitempty"`
	Number int       `json:"number,omitempty"` // 1-based position in the path's history; a negative one counts back from the newest
	At     time.Time `json:"at,omitzero"`
}

// DiffQuery asks for a diff between two versions of a path. A zero To means the present file. A
// zero From means the version before the newest change.
type DiffQuery struct {
	Path    []byte    `json:"path,omitempty"` // "" with Since: the whole tree
	From    ShowQuery `json:"from,omitzero"`
	New     bool      `json:"new,omitempty"` // diff To against nothing
	To      ShowQuery `json:"to,omitzero"`
	Since   time.Time `json:"since,omitzero"`
	Moments bool      `json:"moments,omitempty"` // From and To are points in time for the subtree of Path; a zero To is now
	Context int       `json:"context,omitempty"` // 0: 3
}

// DiffAnswer summarises a diff.
type DiffAnswer struct {
	Files   int  `json:"files"`
	Added   int  `json:"added"`
	Removed int  `json:"removed"`
	Binary  bool `json:"binary,omitempty"`
}

// BlameAnswer holds, for each line of the body's text, the index in Versions of the version that
// wrote it.
type BlameAnswer struct {
	Versions []Version `json:"versions"`
	Lines    []int     `json:"lines"`
}

// PlanRequest asks for a plan. Kind is one of
//   - revert: Path by Steps or to Version
//   - undo
//   - redo
//   - restore: Paths, or the whole tree, to At
//   - resume or rollback: the unfinished plan named by Plan
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
	Action   uint64    `json:"action,omitempty"` // undo the action (as shown by log) that this version belongs to
	// Edits restricts the undo to these edits.
	Edits []FileEdits `json:"edits,omitempty"`
	Last  bool        `json:"last,omitempty"`
	Asker string      `json:"-"` // the session that the asking process works for; the daemon determines it
	Since time.Time   `json:"since,omitzero"`
	// After and Before restrict the plan to versions between these numbers, in a history that
	// several machines wrote. 0 means no bound.
	After  uint64    `json:"after,omitempty"`
	Before uint64    `json:"before,omitempty"`
	At     ShowQuery `json:"at,omitzero"`
	Plan   string    `json:"plan,omitempty"`   // for redo: the plan to reverse; "": the last one
	GitOp  uint64    `json:"git_op,omitempty"` // for MGitPlan: the operation to undo
	// GitBefore is for MGitPlan: the last operation before operation GitBefore is undone.
	GitBefore uint64 `json:"git_before,omitempty"`
	Merge     bool   `json:"merge,omitempty"`
	Force     bool   `json:"force,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"` // do not write the plan into the journal
	// Contents is the path of a file, for a dry run. The answer's body holds the file's contents
	// before and after the plan, see Plan.Contents.
	Contents []byte `json:"contents,omitempty"`
	// Leave lists lines that the plan must not change.
	Leave []LeftLines `json:"leave,omitempty"`
	// Elsewhere holds, for an undo or restore, the changes to make, which come from another machine or
	// a fork. The request's body holds the contents whose sizes are in Elsewhere.Sent, concatenated.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// The following fields are for plans of the user's own history. ActionKey is the key of a
	// project's action whose changes outside the project are undone. Project restricts the plan to
	// sessions that worked in that project. ProjectPlan is the ID of a plan of the project: an undo
	// is recorded as belonging to that plan, and a redo reverses the undo that belongs to it.
	ActionKey   string `json:"action_key,omitempty"`
	Project     string `json:"project,omitempty"`
	ProjectPlan string `json:"beside,omitempty"`
}

// Elsewhere is a set of changes that were found in another tree.
type Elsewhere struct {
	Title string          `json:"title"`
	Files []ElsewhereFile `json:"files"`
	Sent  []int64         `json:"sent,omitempty"` // sizes of the contents in the request's body
	// Held means that the client has the content of every Want, so only contents that must be merged
	// need to be sent.
	Held bool `json:"held,omitempty"`
}

// ElsewhereFile is the change of one path.
type ElsewhereFile struct {
	Path []byte         `json:"path"`
	Was  *ElsewhereSide `json:"was,omitempty"` // the path is changed only if it is in this state; nil: in any state
	Want ElsewhereSide  `json:"want"`
	Lost string         `json:"lost,omitempty"` // why Want is unknown
}

// ElsewhereSide is the state of a path.
type ElsewhereSide struct {
	Mode   uint32 `json:"mode,omitempty"` // st_mode; 0: the path does not exist
	Size   int64  `json:"size,omitempty"`
	Target []byte `json:"target,omitempty"` // target of a symlink
	Hash   string `json:"hash,omitempty"`   // hash of a regular file's content
}

// Wanted lists the contents that a plan needs and this history does not have.
type Wanted struct {
	Hashes []string `json:"hashes"`
	Size   int64    `json:"size"` // total size in bytes
}

// FileEdits selects edits between two versions of a file. Edits are numbered as package diff
// returns them.
type FileEdits struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Which  []int  `json:"which"`
}

// LeftLines selects lines of one file that a plan must not change. Stay lists lines that must not
// be removed, and Out lists lines that must not be added. Lines are counted from 0 in the diff
// (package diff) between the present file and the file after the whole plan.
type LeftLines struct {
	Path []byte `json:"path"`
	Stay []int  `json:"stay,omitempty"`
	Out  []int  `json:"out,omitempty"`
}

// Plan is a list of steps. The daemon writes it into the journal, and the client carries it out
// through the mount.
type Plan struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Title     string     `json:"title"` // tells the user what is undone
	Steps     []PlanStep `json:"steps"`
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Lost      []Conflict `json:"lost,omitempty"` // paths that cannot be restored (too large, pruned, gap)
	Begun     time.Time  `json:"begun,omitzero"`
	// Resume means that a client was stopped before the end. Done lists the steps that it had
	// reported. A step whose result already exists also counts as done.
	Resume bool  `json:"resume,omitempty"`
	Done   []int `json:"done,omitempty"`
	// Cut is the interrupted plan, for a rollback.
	Cut *Plan `json:"cut,omitempty"`
	// Partly means that lines were counted only for the first steps.
	Partly bool `json:"partly,omitempty"`
	// Contents describes the answer's body.
	Contents *PlannedContents `json:"plan_contents,omitempty"`
	// Git describes what the same actor did to git's own files, which an undo does not change.
	Git string `json:"git,omitempty"`
	// Session and Prompt are the resolved IDs, for an undo by session or prompt.
	Session string `json:"session,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	// For an undo of one action, ActionKey is its key, Action its last version and ActionEnd the
	// time of that version. For a redo, Of is the plan that it reverses.
	ActionKey string    `json:"action_key,omitempty"`
	Action    uint64    `json:"action,omitempty"`
	ActionEnd time.Time `json:"action_end,omitzero"`
	Of        string    `json:"of,omitempty"`
}

// PlannedContents describes a file before and after a plan. The body holds both contents,
// concatenated.
type PlannedContents struct {
	Was  bool   `json:"was,omitempty"` // the file exists before the plan
	Will bool   `json:"will,omitempty"`
	Old  int64  `json:"old,omitempty"` // size of the content before
	Why  string `json:"why,omitempty"` // why the contents are not available
	// Lines means that single lines can be left alone, see PlanRequest.Leave.
	Lines bool `json:"lines,omitempty"`
}

// OpenPlans lists the plans that no living client is carrying out, without their steps, oldest
// first.
type OpenPlans struct {
	Plans []Plan `json:"plans,omitempty"`
}

// PlanStep is one step. Do is write, delete, mkdir, rmdir, rename, symlink, chmod, link or
// exchange.
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
	Expect  string `json:"expect,omitempty"` // hex hash of the present content, or "absent"; "": any
	ExpMode uint32 `json:"exp_mode,omitempty"`
	Added   int    `json:"added,omitempty"`
	Removed int    `json:"removed,omitempty"`
	Apart   bool   `json:"apart,omitempty"` // give the path a new file that is not shared with its other names
	Ino     uint64 `json:"ino,omitempty"`   // inode of the renamed or exchanged directory
	Below   int    `json:"below,omitempty"` // number of known files in renamed or exchanged directories
	Owned   bool   `json:"owned,omitempty"` // the file gets the owner UID and GID; otherwise set-id bits are not set
	UID     uint32 `json:"uid,omitempty"`
	GID     uint32 `json:"gid,omitempty"`
	Attrs   []byte `json:"attrs,omitempty"` // an attrs.Set of attributes to set; if empty, those of the replaced file
}

// Conflict is a path that a plan leaves alone, and the reason. To is set if the plan would have
// moved the file.
type Conflict struct {
	Path  []byte    `json:"path"`
	To    []byte    `json:"to,omitempty"`
	Why   string    `json:"why"`
	Actor Actor     `json:"actor,omitzero"`
	Time  time.Time `json:"time,omitzero"`
}

// PlanFetch asks for the contents of steps. The answer holds the first content, and more of them if
// they are small.
type PlanFetch struct {
	ID string `json:"id"`
	N  []int  `json:"n"`
}

// PlanContents holds the sizes of the contents in the body. These are the contents of the first
// requested steps, concatenated.
type PlanContents struct {
	Sizes []int `json:"sizes"`
}

// PlanDone reports steps that were carried out. Finished ends the plan.
type PlanDone struct {
	ID       string     `json:"id"`
	Done     []int      `json:"done,omitempty"`
	Failed   []Conflict `json:"failed,omitempty"`
	Finished bool       `json:"finished"`
	Watched  bool       `json:"watched,omitempty"` // nothing is mounted, but the recorder of "cachebro run" (the net) records the steps
}

// StoreRequest names an operation in Do: prune, gc, du, fsck or purge. gc with the argument "own"
// leaves other projects alone. prune with DryRun drops nothing and reports what it would drop.
// prune with the Digest from that answer drops it, unless the result would now be different.
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
	Versions uint64 `json:"versions" cbor:"1,keyasint"`
	Contents uint64 `json:"contents" cbor:"2,keyasint"`
	Bytes    int64  `json:"bytes" cbor:"3,keyasint"`   // size of the contents, uncompressed
	Records  uint64 `json:"records" cbor:"4,keyasint"` // number of other records, such as sessions, tool calls and notes
}

// StoreAnswer holds Text for the user and Facts for scripts.
type StoreAnswer struct {
	Text  string          `json:"text"`
	OK    bool            `json:"ok"`
	Facts json.RawMessage `json:"facts,omitempty"`
}

// Ingest sends the content that a cachebro tool is about to overwrite, or that it wrote while
// nothing was mounted. In the answer, Kept means that the history has the content or the mount will
// record it.
type Ingest struct {
	Path  []byte `json:"path"`
	PID   int    `json:"pid,omitempty"`   // if the body is the written content: the process that wrote it
	Class string `json:"class,omitempty"` // tracked, ignored or excluded
	Kept  bool   `json:"kept,omitempty"`
}
