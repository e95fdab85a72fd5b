package wire

import "time"

// Reader names one context window: a client session and an agent within it. If the client sends no
// IDs, Connection is set and the connection is the reader.
type Reader struct {
	Session    string `json:"session,omitempty"`
	Agent      string `json:"agent,omitempty"`
	ToolUse    string `json:"tool_use,omitempty"` // links an MCP call to the reader known from the hook
	Connection string `json:"connection,omitempty"`
}

// ReadRequest asks for the text of a file for one reader. The answer may be full, shortened or a
// diff. Lines are 1-based. Limit 0 means to the end.
type ReadRequest struct {
	Reader     Reader `json:"reader"`
	Path       []byte `json:"path"`
	Offset     int    `json:"offset,omitempty"`
	Limit      int    `json:"limit,omitempty"`
	Force      bool   `json:"force,omitempty"`
	DiffOffset int    `json:"diff_offset,omitempty"`
	// MaxTokens limits the answer; 0 means no limit. Instead of a longer answer, the reader gets
	// the kind ReadLarge, and nothing counts as shown.
	MaxTokens int `json:"max_tokens,omitempty"`
	// Small is the number of bytes that the client certainly passes to the model; 0 means no limit.
	// A longer answer does not count as shown. It also makes it uncertain whether earlier answers
	// are still in the context.
	Small int    `json:"small,omitempty"`
	Tool  string `json:"tool,omitempty"` // for the savings account: read_file, read_files, read
	// Pending means that the sent text is recorded under Reader.ToolUse and counts as shown only
	// after a commit. Otherwise it counts as shown as soon as the answer is written.
	Pending bool `json:"pending,omitempty"`
	// Listing means that the request's body is the client's listing of the directory Path, one item
	// per line. The answer is "unchanged", the added and removed items, or the listing.
	Listing bool `json:"listing,omitempty"`
	// Rewrite is set by a PostToolUse hook, which has the client's own result and asks what to
	// replace it with.
	Rewrite *Rewrite `json:"rewrite,omitempty"`
	// Context says what the reader's context still holds. It is one of the Context constants.
	Context string `json:"context,omitempty"`
}

// Rewrite describes the result of a client's built-in read. The request's body is the text of the
// result.
type Rewrite struct {
	Rendering string `json:"rendering"`
	StartLine int    `json:"start_line"`
	NumLines  int    `json:"num_lines"`
	// ClientUnchanged means that the client itself answered "file unchanged".
	ClientUnchanged bool `json:"client_unchanged,omitempty"`
	// Part distinguishes several texts of one result. 0 means that there is only one.
	Part int `json:"part,omitempty"`
}

// The kinds of answers.
const (
	ReadFull      = "full"
	ReadUnchanged = "unchanged"
	ReadDiff      = "diff"
	ReadSpan      = "span" // for a Rewrite: real lines around the change, with Start and NumLines set
	ReadKeep      = "keep" // for a Rewrite: leave the client's result as it is
	// ReadLarge means that the answer exceeds MaxTokens. The client has to request a part.
	ReadLarge = "large"
)

// ReadAnswer describes the text in the body. Text of kind full is exactly the bytes of the
// requested lines.
type ReadAnswer struct {
	Kind       string `json:"kind"`
	Label      string `json:"label,omitempty"` // first line of the sent text, see doc/formats.md
	Start      int    `json:"start"`           // number of the text's first line
	NumLines   int    `json:"num_lines"`
	TotalLines int    `json:"total_lines"`
	Note       string `json:"note,omitempty"` // for a Rewrite: the additionalContext
	Binary     bool   `json:"binary,omitempty"`
	// Again means, for ReadLarge, that full text was due because the reader requested the range
	// twice. The client has to request the parts with Force.
	Again bool `json:"again,omitempty"`
}

// Shown records the delivered text in the body as pending under Reader.ToolUse.
type Shown struct {
	Reader    Reader `json:"reader"`
	Path      []byte `json:"path"`
	Rendering string `json:"rendering"`
	StartLine int    `json:"start_line"`
	NumLines  int    `json:"num_lines"`
}

// Commit reports which results of a batch of tool calls the model actually received.
type Commit struct {
	Reader Reader       `json:"reader"`
	Calls  []CommitCall `json:"calls"`
	// Given is the number of other tokens that the batch added to the context.
	Given int64 `json:"given,omitempty"`
}

// CommitAnswer lists the tool uses for which the model received the client's own text instead of
// cachebro's.
type CommitAnswer struct {
	Own []string `json:"own,omitempty"`
}

// CommitCall holds the exact final text of a call that has a pending entry.
type CommitCall struct {
	ToolUse string `json:"tool_use"`
	Text    string `json:"text"`
	// Took says which text of a result with several pending entries was delivered, if the hook
	// knows. "" means that Text has to be compared.
	Took string `json:"took,omitempty"`
}

// The values of CommitCall.Took.
const (
	TookOurs  = "ours"  // cachebro's text, in each part
	TookOwn   = "own"   // the client's own text
	TookOther = "other" // neither
)

// OwnEdit reports an agent's edit through a cachebro tool. The agent has seen only Old and New.
type OwnEdit struct {
	Reader Reader `json:"reader"`
	Path   []byte `json:"path"`
	Before string `json:"before"` // hex hash of the content before the edit
	Old    string `json:"old"`
	New    string `json:"new"`
	All    bool   `json:"all"`
	Tool   string `json:"tool,omitempty"` // the tool's name; "": Edit or Write
}

// GivenQuery asks whether cachebro itself sent one of Lines to the reader's session. It also
// records the lines in Add, which a hook is about to send.
type GivenQuery struct {
	Reader Reader   `json:"reader"`
	Lines  []string `json:"lines,omitempty"`
	Add    []string `json:"add,omitempty"`
}

// GivenAnswer holds the first of the lines in the query that the session has received, or "" if it
// has received none of them.
type GivenAnswer struct {
	Line string `json:"line,omitempty"`
}

// These values say what a reader's context still holds. The hook determines the value from the
// client's transcript before every request. "" means unknown.
const (
	ContextHeld   = "held"   // the context has lost nothing
	ContextUnsure = "unsure" // the transcript does not show whether the context lost something
	ContextFell   = "fell"   // the context has lost something, so earlier deliveries do not count
)

// SessionEvent reports an event: start, end, prompt, precompact, postcompact, subagent-start,
// subagent-stop, stop, connect, disconnect.
type SessionEvent struct {
	Session    string `json:"session"`
	Agent      string `json:"agent,omitempty"`
	Event      string `json:"event"`
	Source     string `json:"source,omitempty"` // startup, resume, clear, compact, fork
	Prompt     string `json:"prompt,omitempty"`
	Transcript string `json:"transcript,omitempty"`
	Cwd        string `json:"cwd,omitempty"`
	Client     string `json:"client,omitempty"`
	PID        int    `json:"pid,omitempty"` // the client's process, an ancestor of the hook
	// Alive lists the tool_use IDs on the transcript's active chain (see readers.TranscriptCheck),
	// if Checked is set.
	Alive   []string `json:"alive,omitempty"`
	Checked bool     `json:"checked,omitempty"`
	// Text is the beginning of a prompt.
	Text string `json:"text,omitempty"`
	// Given is the number of tokens that the event added to the context.
	Given int64 `json:"given,omitempty"`
	// NoNews means that the answer need not report changes by others, because another project's
	// daemon answers the session, or because the client takes no answer to this event.
	NoNews bool `json:"beside,omitempty"`
	// Continues means that the client itself sent this prompt, without the user.
	Continues bool `json:"continues,omitempty"`
	// Causes lists the tool calls and agents that the prompt reports on, best match first.
	Causes []string `json:"causes,omitempty"`
	// Origin means that the client's transcript will show whether the user typed this prompt.
	Origin bool `json:"origin,omitempty"`
}

// SharedCall is a tool call that may write anywhere, as the daemon of one project reports it to the
// daemon of another. Times are in ns.
type SharedCall struct {
	Call   ToolCall `json:"call"`
	PStart uint64   `json:"pstart,omitempty"` // start time of the process Call.PID
	Begin  int64    `json:"begin"`
	End    int64    `json:"end,omitempty"` // 0: still running
}

// SessionAnswer reports the session's state.
type SessionAnswer struct {
	Mounted bool `json:"mounted"`
	// MountEnded is set in the answer to the first prompt after a mount that the session knew is gone.
	MountEnded bool `json:"mount_ended,omitempty"`
	// Trouble says why changes are not saved at present, although something is mounted; "": they are.
	Trouble string `json:"trouble,omitempty"`
	// TellOrigin asks the client to send an event "origin" that says whether the user typed the
	// prompt.
	TellOrigin bool `json:"tell_origin,omitempty"`
	// News is set in the answer to a prompt. It lists the changes that others made since the
	// previous prompt to files that the main loop was shown. Each change is reported once.
	News []News `json:"news,omitempty"`
	// Unsaved says why the session could not be stored, for example because the disk is full. Nothing
	// can then be selected by the session later.
	Unsaved string `json:"unsaved,omitempty"`
}

// News is a change by somebody else to a file that a reader was shown. Diff compares what the
// reader was shown with the present content. A long diff is left out.
type News struct {
	Text string `json:"text"`
	Diff string `json:"diff,omitempty"`
}

// ToolCall reports the begin or end of a tool call.
type ToolCall struct {
	Session    string   `json:"session"`
	Agent      string   `json:"agent,omitempty"`
	Prompt     string   `json:"prompt,omitempty"`
	ToolUse    string   `json:"tool_use"`
	Tool       string   `json:"tool"`
	Paths      [][]byte `json:"paths,omitempty"`
	Command    string   `json:"command,omitempty"`
	PID        int      `json:"pid,omitempty"` // the client's process
	Failed     bool     `json:"failed,omitempty"`
	Background bool     `json:"background,omitempty"`
	// Context says what the context of the call still holds. It is one of the Context constants.
	Context string `json:"context,omitempty"`
	// Given is the number of tokens that the call added to the context. It is set at the end of a
	// call whose result is not committed.
	Given int64 `json:"given,omitempty"`
	// Hold asks the daemon to block the call once, and to report the changes, if the call edits a
	// file that others have changed since the reader was shown it.
	Hold bool `json:"hold,omitempty"`
	// Cwd is the working directory, for a call of one of cachebro's tools.
	Cwd string `json:"cwd,omitempty"`
}

// ToolPlace is the working directory of a tool call, "" if unknown.
type ToolPlace struct {
	Cwd string `json:"cwd,omitempty"`
}

// ToolBeginAnswer carries warnings, ready to inject, about writes to files that others have
// changed.
type ToolBeginAnswer struct {
	Warnings []string `json:"warnings,omitempty"`
	// Held is the reason to block the call, see ToolCall.Hold.
	Held string `json:"held,omitempty"`
	// TellOrigin is as in SessionAnswer.
	TellOrigin bool `json:"tell_origin,omitempty"`
}

// SessionQuery names a session by ID. "last" is the newest session.
type SessionQuery struct {
	Session string `json:"session,omitempty"`
}

// WorkingSetQuery asks for a session's files, or for the files of all sessions since a time.
type WorkingSetQuery struct {
	Session string    `json:"session,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Limit   int       `json:"limit,omitempty"`
}

// WorkingSet lists files newest first.
type WorkingSet struct {
	Session string        `json:"session,omitempty"`
	Branch  string        `json:"branch,omitempty"`
	Files   []WorkingFile `json:"files"`
}

// WorkingFile counts a session's reads and edits of a file.
type WorkingFile struct {
	Path    []byte    `json:"path"`
	Edits   int       `json:"edits"`
	Reads   int       `json:"reads"`
	Last    time.Time `json:"last"`
	By      string    `json:"by,omitempty"`     // tool or process of the last edit
	Others  string    `json:"others,omitempty"` // who else changed the file since
	Deleted bool      `json:"deleted,omitempty"`
}

// Recovery is the data for three texts: the recovery block after a compaction, the line that a Stop
// hook shows, and the report.
type Recovery struct {
	Known    bool       `json:"known"`
	Branch   string     `json:"branch"`
	Set      WorkingSet `json:"set"`
	Changed  []string   `json:"changed_by_others,omitempty"`
	Failed   string     `json:"last_failing_command,omitempty"`
	Metrics  Metrics    `json:"metrics"`
	Prompt   string     `json:"prompt,omitempty"` // the session's last prompt
	Modified int        `json:"modified"`         // files changed in that prompt, or in the session if it has none
	Mounted  bool       `json:"mounted"`
	// Notes lists the notes that the session should be reminded of, most urgent first. MoreNotes is
	// the number of the project's other notes.
	Notes     []Note `json:"notes,omitempty"`
	MoreNotes int    `json:"more_notes,omitempty"`
}

// MetricsQuery asks for metrics. With Delta, the answer holds only what was added since the last
// query with Delta.
type MetricsQuery struct {
	Session string `json:"session,omitempty"` // "last", an id, "" for all
	Delta   bool   `json:"delta,omitempty"`
}

// Metrics counts tokens (estimates). Saved may be negative.
type Metrics struct {
	Session  string       `json:"session,omitempty"`
	Tools    []ToolMetric `json:"tools"`
	Calls    int          `json:"calls,required"`
	Full     int64        `json:"full_tokens,required"`  // without cachebro
	Sent     int64        `json:"sent_tokens,required"`  // delivered, including labels
	Overhead int64        `json:"overhead_tokens"`       // injected context and schema
	Saved    int64        `json:"saved_tokens,required"` // Full - Sent - Overhead
	Percent  float64      `json:"percent,required"`      // Saved / Full * 100
	Cached   int          `json:"unchanged_answers"`
	Diffs    int          `json:"diff_answers"`
	Contexts int          `json:"contexts"` // number of context windows for which the cost of the schema was counted
}

// ToolMetric is one line of the report.
type ToolMetric struct {
	Tool  string `json:"tool"`
	Calls int    `json:"calls"`
	Full  int64  `json:"full_tokens"`
	Sent  int64  `json:"sent_tokens"`
	Saved int64  `json:"saved_tokens"`
}

// Spend counts tokens that reached the context in other ways than through MRead.
type Spend struct {
	Reader Reader `json:"reader"`
	Tool   string `json:"tool"` // read, ls, search, recovery, schema, …
	Full   int64  `json:"full_tokens"`
	Sent   int64  `json:"sent_tokens"`
	Kind   string `json:"kind"`             // result, overhead
	Answer string `json:"answer,omitempty"` // unchanged, diff, full
	// Credit means that the overhead counts only if the session has saved as many tokens.
	Credit bool `json:"credit,omitempty"`
}

// SpendAnswer reports whether the tokens were counted.
type SpendAnswer struct {
	Booked bool `json:"booked"`
}
