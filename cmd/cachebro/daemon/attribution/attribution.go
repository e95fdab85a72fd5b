// Package attribution determines who made a change: it finds the session, prompt, tool call or plan
// that a process works for.
package attribution

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"cachebro/fusefs"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Key identifies a process. A pid is reused, but never with the same start time.
type Key struct {
	PID   uint32
	Start uint64 // clock ticks after boot
}

// process is what mountd reported about a process. It is immutable, except for seen.
type process struct {
	key     Key
	parent  Key
	uid     uint32
	comm    string
	args    string // joined by spaces, for comparisons
	session string // the first session that its environment names
	// client is the second, different session that its environment names, or "" if there is none.
	// Usually the first one belongs to a "cachebro run", and the second to the agent that runs in it.
	client string
	seen   int64
}

// window is the time during which a tool call may write. For a tool that edits files itself
// (Edit, Write) the writer is Owner itself; for Bash it is a descendant of Owner.
type window struct {
	Call  wire.ToolCall `json:"call"`
	Owner Key           `json:"owner"`         // the process named by Call.PID
	Begin int64         `json:"begin"`         // ns
	End   int64         `json:"end,omitempty"` // ns, 0 while open
}

// sessionAt is a session, and the time at which a client process began to work for it. A process
// may have several sessions, one after the other (/clear, /resume).
type sessionAt struct {
	Time    int64           `json:"t"`
	Session store.SessionID `json:"s"`
}

// promptAt is a prompt, and the time at which a session began to work on it.
type promptAt struct {
	time   int64
	prompt string
}

// Attribution knows which session, prompt and tool call a process works for. Records may be ingested
// long after they were written, so every lookup uses the record's time, not the present.
type Attribution struct {
	boot      int64 // ns since 1970; the origin of start times, see procfs.Zero
	store     *store.Store
	log       *slog.Logger
	swept     time.Time            // when ForgetOld last ran
	onSession func(session string) // see OnSession
	callers   *fusefs.Callers      // for Meet

	// mu guards the fields below. No goroutine waits while it holds mu.
	mu       sync.Mutex
	procs    map[Key]*process
	clients  map[Key][]sessionAt
	prompts  map[store.SessionID][]promptAt
	windows  []*window       // sorted by Begin
	branches map[Key]*window // the call for which each direct child of a client was started
	plans    []*planWindow
	agents   map[agentKey]string // the prompt that started each sub-agent
	// continues maps each prompt that a client sent by itself to the typed prompt whose work it
	// continues.
	continues map[string]string
}

type agentKey struct {
	session store.SessionID
	agent   string
}

// planWindow is the time during which a client carries out a plan.
type planWindow struct {
	ID    string `json:"-"`
	Owner Key    `json:"owner"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end,omitempty"`
}

const (
	maxProcs   = 20_000
	maxWindows = 2_000
	maxArgs    = 256 // bytes of the command line that a version keeps; a ProcessBook keeps more
	// windowSlack covers the inaccuracy of both clocks. Start times are in ticks of 10 ms, and a
	// hook reports the end of a tool a little late.
	windowSlack = int64(60 * time.Millisecond)
)

func newAttribution() *Attribution {
	return &Attribution{
		boot: procfs.Zero(), callers: fusefs.NewCallers(nil), procs: map[Key]*process{}, clients: map[Key][]sessionAt{},
		prompts: map[store.SessionID][]promptAt{}, branches: map[Key]*window{},
		agents: map[agentKey]string{}, continues: map[string]string{},
	}
}

// process records the process that a KindProcess record describes.
func (a *Attribution) process(r *spool.Record) {
	p := &process{key: Key{r.PID, r.Start}, parent: Key{r.PPID, r.PStart}, uid: r.UID, comm: r.Comm, args: strings.ReplaceAll(r.Args, "\x00", " "), seen: r.Time}
	for _, name := range event.SessionVariables {
		switch session := r.Session[name]; {
		case session == "" || session == p.session || p.client != "":
		case p.session == "":
			p.session = session
		default:
			p.client = session
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.procs[p.key]; old != nil {
		if p.session == "" {
			p.session, p.client = old.session, old.client
		}
		if p.args == "" && p.comm == old.comm {
			p.args = old.args
		}
		// The process was reparented to init, so keep its original parent.
		if p.parent.PID <= 1 && old.parent.PID > 1 {
			p.parent = old.parent
		}
	}
	a.procs[p.key] = p
	if len(a.procs) > maxProcs {
		a.shrinkLocked()
	}
}

// shrinkLocked forgets the half of the processes that were seen least recently.
func (a *Attribution) shrinkLocked() {
	all := slices.SortedFunc(maps.Values(a.procs), func(a, b *process) int { return cmp.Compare(a.seen, b.seen) })
	for _, p := range all[:len(all)/2] {
		delete(a.procs, p.key)
		delete(a.branches, p.key)
	}
}

func (a *Attribution) client(key Key, id store.SessionID, t int64) {
	if key.PID == 0 || id == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.clients[key]
	if n := len(list); n > 0 && list[n-1].Session == id {
		return
	}
	a.clients[key] = append(list, sessionAt{t, id})
}

// Prompt records that a session works on a prompt, beginning at time t.
func (a *Attribution) Prompt(id store.SessionID, prompt string, t int64) {
	if id == "" || prompt == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.prompts[id]
	if n := len(list); n > 0 && list[n-1].prompt == prompt {
		return
	}
	if len(list) >= 1000 {
		list = slices.Clone(list[500:])
	}
	a.prompts[id] = append(list, promptAt{t, prompt})
}

// promptLocked returns the prompt of a session at t. Prompts announced later do not count.
func (a *Attribution) promptLocked(id store.SessionID, t int64) string {
	list := a.prompts[id]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].time <= t {
			return a.typedLocked(list[i].prompt)
		}
	}
	return ""
}

func (a *Attribution) begin(call wire.ToolCall, owner Key, t int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.windows {
		if w.Call.ToolUse == call.ToolUse && w.Call.ToolUse != "" && w.End == 0 {
			return // a hook that ran twice
		}
	}
	a.windows = append(a.windows, &window{Call: call, Owner: owner, Begin: t})
	if len(a.windows) > maxWindows {
		drop := a.windows[:maxWindows/2]
		for key, w := range a.branches {
			if slices.Contains(drop, w) {
				delete(a.branches, key)
			}
		}
		a.windows = slices.Clone(a.windows[maxWindows/2:])
	}
}

// Cwd returns the directory that a tool call was made in, or "" if it is not known.
func (a *Attribution) Cwd(toolUse string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range slices.Backward(a.windows) {
		if w.Call.ToolUse == toolUse {
			return w.Call.Cwd
		}
	}
	return ""
}

// finish closes a tool call's window. A background command may write later, so its processes remain
// assigned to the call.
func (a *Attribution) finish(toolUse string, background, failed bool, t int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.windows) - 1; i >= 0; i-- {
		if w := a.windows[i]; w.Call.ToolUse == toolUse {
			w.End = cmp.Or(w.End, t)
			w.Call.Background = w.Call.Background || background
			w.Call.Failed = w.Call.Failed || failed
			return
		}
	}
}

// SessionOf returns the session that a process works for at t, or "" if none is known.
func (a *Attribution) SessionOf(key Key, t int64) store.SessionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, _, _ := a.findLocked(a.chainLocked(key), t)
	return id
}

// chainLocked returns a process and its known ancestors, the nearest first.
func (a *Attribution) chainLocked(key Key) []Key {
	var chain []Key
	for key.PID != 0 && len(chain) < 64 {
		chain = append(chain, key)
		p := a.procs[key]
		if p == nil || slices.Contains(chain, p.parent) {
			break
		}
		key = p.parent
	}
	return chain
}

// Family returns the newest process that has this pid, and all its descendants. known reports
// whether anything is known of that process.
func (a *Attribution) Family(pid uint32) (all map[Key]bool, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var root Key
	for _, p := range a.procs {
		for _, k := range []Key{p.key, p.parent} {
			if k.PID == pid && k.Start >= root.Start {
				root, known = k, true
			}
		}
	}
	all = map[Key]bool{}
	for k := range a.procs {
		if slices.Contains(a.chainLocked(k), root) {
			all[k] = true
		}
	}
	return all, known
}

// findLocked finds the session that the processes in chain work for. It is the session of the
// nearest client, and the second result is that client's index in chain. If there is no client, the
// session comes from the nearest process that has one in its environment, and the index is -1.
func (a *Attribution) findLocked(chain []Key, t int64) (id store.SessionID, at int, ok bool) {
	for i, key := range chain {
		list := a.clients[key]
		for j := len(list) - 1; j >= 0; j-- {
			if list[j].Time <= t || j == 0 { // a session may announce itself after its first writes
				return list[j].Session, i, true
			}
		}
	}
	for _, key := range chain {
		if p := a.procs[key]; p != nil && p.session != "" {
			return store.SessionID(p.session), -1, true
		}
	}
	return "", -1, false
}

// Actor returns the author of a record.
func (a *Attribution) Actor(key Key, uid uint32, t int64, path string) store.Actor {
	out := store.Actor{PID: key.PID, Start: key.Start, UID: uid}
	a.mu.Lock()
	defer a.mu.Unlock()
	chain := a.chainLocked(key)
	if p := a.procs[key]; p != nil {
		p.seen = max(p.seen, t)
		out.UID, out.Comm = p.uid, p.comm
		out.Args = p.args[:min(len(p.args), maxArgs)]
	}
	id, at, ok := a.findLocked(chain, t)
	var w *window
	certain := false
	if at < 0 {
		w, certain = a.birthLocked(chain, t)
		if w != nil {
			id = store.SessionID(w.Call.Session)
		}
	}
	out.Session = id
	if !ok && len(chain) == 0 {
		return out
	}
	if w == nil {
		w, certain = a.windowLocked(chain, at, id, t, path)
	}
	if w == nil {
		out.Prompt = a.promptLocked(id, t)
		return out
	}
	out.Session = cmp.Or(out.Session, store.SessionID(w.Call.Session))
	out.Agent = w.Call.Agent
	out.Prompt = w.Call.Prompt
	out.ToolCall = w.Call.ToolUse
	out.Tool = w.Call.Tool
	out.Uncertain = !certain
	if out.Prompt == "" {
		out.Prompt = a.promptLocked(out.Session, w.Begin)
	}
	out.Prompt = a.typedLocked(out.Prompt)
	out.Late = w.End != 0 && t > w.End+windowSlack && !w.Call.Background && !WritesItself(w.Call.Tool)
	return out
}

// Continue records that a client sent prompt by itself, to continue the work on the prompt earlier.
// The client may have sent that one by itself as well.
func (a *Attribution) Continue(prompt, earlier string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	typed := a.typedLocked(earlier)
	if typed != prompt {
		a.continues[prompt] = typed
	}
}

// typedLocked returns the typed prompt whose work the given prompt continues. If a person typed the
// given prompt, it returns that.
func (a *Attribution) typedLocked(prompt string) string {
	if typed := a.continues[prompt]; typed != "" {
		return typed
	}
	return prompt
}

// PromptOf returns the typed prompt that the given prompt belongs to. A sub-agent works for the prompt
// that started it, even if its session has received newer prompts.
func (a *Attribution) PromptOf(session store.SessionID, agent, prompt string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if started := a.agents[agentKey{session, agent}]; agent != "" && started != "" {
		prompt = started
	}
	return a.typedLocked(prompt)
}

// Agents returns the prompts that started a session's sub-agents, by sub-agent.
func (a *Attribution) Agents(session store.SessionID) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]string{}
	for k, prompt := range a.agents {
		if k.session == session {
			all[k.agent] = a.typedLocked(prompt)
		}
	}
	return all
}

func (a *Attribution) sortLocked() {
	sort.SliceStable(a.windows, func(i, j int) bool { return a.windows[i].Begin < a.windows[j].Begin })
}

// ReaderOf returns the reader that made a tool call.
func (a *Attribution) ReaderOf(toolUse string) (store.Reader, bool) {
	if toolUse == "" {
		return store.Reader{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.windows) - 1; i >= 0; i-- {
		if w := a.windows[i]; w.Call.ToolUse == toolUse && w.Call.Session != "" {
			return store.Reader{Session: store.SessionID(w.Call.Session), Agent: w.Call.Agent}, true
		}
	}
	return store.Reader{}, false
}

// KnownClient reports whether a process already works for a session.
func (a *Attribution) KnownClient(key Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.clients[key]) > 0
}

// Outsider is the actor of changes that bypassed the mount.
var Outsider = store.Actor{Comm: "outside"}

// ByWhom describes who made a version, as a phrase that fits into a sentence.
func ByWhom(a store.Actor) string {
	switch {
	case a.Tool != "" && a.Tool != "Bash":
		return a.Tool
	case a.Comm == Outsider.Comm && a.PID == 0:
		return "a process that bypassed the mount"
	case a.Comm != "" && a.PID != 0:
		return fmt.Sprintf("%s (pid %d)", onwire.Display(store.Path(a.Comm)), a.PID)
	case a.Comm != "":
		return onwire.Display(store.Path(a.Comm))
	}
	return "an unknown process"
}

// OwnerOf returns the key of the process that has this pid now. Its Start is 0 if that cannot be
// read.
func OwnerOf(pid int) Key {
	if pid <= 0 {
		return Key{}
	}
	st, err := procfs.ReadStat(pid)
	if err != nil {
		return Key{PID: uint32(pid)}
	}
	return Key{uint32(pid), st.Start}
}

// WriterOf returns the key of the process in a record.
func WriterOf(r *spool.Record) Key { return Key{r.PID, r.Start} }

// Alive reports whether the process with this pid and start time (0: any) is still running.
func Alive(pid int, start uint64) bool {
	if pid <= 0 {
		return false
	}
	if st, err := procfs.ReadStat(pid); err != nil {
		// A process that is not found has ended. After another error, such as a denied
		// permission, only check that the process exists.
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
	} else if start != 0 && st.Start != start || st.State == 'Z' || st.Flags&procfs.Exiting != 0 {
		return false // another process with this pid, or one that has ended and only waits for its parent
	}
	return true
}

// Began returns when a process with this start time began, in ns since the epoch. The result is at
// most one procfs.Tick early, and 0 if the time is not known.
func Began(start uint64) int64 {
	boot := procfs.Zero()
	if boot == 0 || start == 0 {
		return 0
	}
	return boot + int64(start)*int64(procfs.Tick)
}
