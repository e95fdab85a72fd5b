package attribution

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"cachebro/fusefs/capture"
	"cachebro/store"
	"cachebro/store/leaf/cmdline"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"

	"cachebro/store/wire"
)

// The state of Attribution must outlive the daemon, because mountd reports a process only once, and
// a tool call may run while the daemon is restarted. It is stored in the KV bucket "attribution",
// keyed by the kind of entry.
const (
	bucket = "attribution"

	keepProcess = "p/" // pid.start → keptProcess
	keepWindow  = "w/" // tool use → window
	keepClient  = "c/" // pid.start → []sessionAt
	keepPlan    = "l/" // plan → planWindow
	keepAgent   = "g/" // session/agent → keptAgent
	keepBoot    = "boot"
)

type keptProcess struct {
	PPID    uint32 `json:"pp,omitempty"`
	PStart  uint64 `json:"ps,omitempty"`
	UID     uint32 `json:"u,omitempty"`
	Comm    string `json:"c,omitempty"`
	Args    string `json:"a,omitempty"`
	Session string `json:"s,omitempty"`
	Client  string `json:"cs,omitempty"`
	Seen    int64  `json:"t"`
}

type keptAgent struct {
	Session string `json:"s"`
	Agent   string `json:"a"`
	Prompt  string `json:"p"`
	Began   int64  `json:"t"`
}

func (k Key) String() string { return fmt.Sprintf("%d.%d", k.PID, k.Start) }

func parseProcKey(s string) (k Key, ok bool) {
	n, err := fmt.Sscanf(s, "%d.%d", &k.PID, &k.Start)
	return k, err == nil && n == 2
}

func (a *Attribution) keep(key string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = a.store.KV(bucket).Set(key, b)
	}
	if err != nil { // this affects only attribution after a restart
		a.log.Warn("a value could not be stored for the next daemon", "key", key, "err", err)
	}
}

// Rows collects the rows that are to be stored for processes and their programs. A build starts
// thousands of processes, so all rows of a batch are stored in one step.
type Rows struct{ processes, programs map[string][]byte }

// OnSession sets a function that is called with each session that the environment of a process
// names, before that process is recorded. It may be called often and must return soon.
func (a *Attribution) OnSession(meet func(session string)) { a.onSession = meet }

// Calls returns the tool calls of a session that began at since (ns) or later and may write
// anywhere, oldest first. Each contains the pid and start time of the process that made it.
func (a *Attribution) Calls(session string, since int64) (all []wire.SharedCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.windows {
		if w.Call.Session == session && w.Begin >= since && !WritesItself(w.Call.Tool) {
			c := wire.SharedCall{Call: w.Call, PStart: w.Owner.Start, Begin: w.Begin, End: w.End}
			c.Call.PID = int(w.Owner.PID)
			all = append(all, c)
		}
	}
	return all
}

// TakeCall records a tool call that another project's daemon reported.
func (a *Attribution) TakeCall(c wire.SharedCall) {
	a.begin(c.Call, Key{uint32(max(c.Call.PID, 0)), c.PStart}, c.Begin)
	if c.End != 0 {
		a.finish(c.Call.ToolUse, c.Call.Background, c.Call.Failed, c.End)
	}
	a.mu.Lock()
	a.sortLocked()
	a.mu.Unlock()
	a.saveWindow(c.Call.ToolUse)
}

// RecordProcess records the process of a KindProcess record, and adds to rows what must be stored
// about it.
func (a *Attribution) RecordProcess(r *spool.Record, rows *Rows) {
	if a.onSession != nil {
		for _, session := range r.Session {
			a.onSession(session)
		}
	}
	a.process(r)
	k := Key{r.PID, r.Start}
	a.mu.Lock()
	p := a.procs[k]
	a.mu.Unlock()
	if p == nil {
		return
	}
	if rows.processes == nil {
		rows.processes, rows.programs = map[string][]byte{}, map[string][]byte{}
	}
	if val, err := json.Marshal(keptProcess{p.parent.PID, p.parent.Start, p.uid, p.comm, p.args, p.session, p.client, p.seen}); err == nil {
		rows.processes[keepProcess+k.String()] = val
	}
	if r.Args == "" && p.args != "" {
		return // the earlier record also has the arguments
	}
	program := Process{Key: k, Parent: p.parent, UID: r.UID, Group: r.Group, Comm: r.Comm, Args: cmdline.Unpack(r.Args), Dir: r.Dir, Seen: r.Time}
	if key, val := ProcessRow(program); key != "" {
		rows.programs[key] = val
	}
}

// KeepRows stores the rows that RecordProcess collected, and empties rows.
func (a *Attribution) KeepRows(rows *Rows) error {
	if len(rows.processes) == 0 {
		return nil
	}
	err := errors.Join(a.store.KV(bucket).SetAll(rows.processes), OpenProcesses(a.store).Keep(rows.programs))
	*rows = Rows{}
	return err
}

// Meet records a process and its ancestors, as the records of a mount would, and returns the
// process's key. The process may never have written anything.
func (a *Attribution) Meet(pid int) Key {
	if pid <= 0 {
		return Key{}
	}
	var rows Rows
	now := time.Now().UnixNano()
	key := OwnerOf(pid)
	for p := a.callers.Of(uint32(pid)).Proc; p != nil; p = p.Parent {
		a.RecordProcess(capture.ProcessRecord(p, now), &rows)
	}
	if err := a.KeepRows(&rows); err != nil {
		a.log.Warn("processes could not be stored for the next daemon", "err", err)
	}
	return key
}

// Asker returns the session that a process works for now, or "" if it works for a person.
func (a *Attribution) Asker(pid int) store.SessionID {
	return a.SessionOf(a.Meet(pid), time.Now().UnixNano())
}

func (a *Attribution) saveWindow(toolUse string) {
	a.mu.Lock()
	var k *window
	for i := len(a.windows) - 1; i >= 0 && k == nil; i-- {
		if w := a.windows[i]; w.Call.ToolUse == toolUse {
			copied := *w
			k = &copied
		}
	}
	a.mu.Unlock()
	if k != nil {
		a.keep(keepWindow+toolUse, k)
	}
}

// Client records that a process works for a session from t (ns) on. Like the methods below, it
// stores this for the next daemon.
func (a *Attribution) Client(key Key, id store.SessionID, t int64) {
	a.client(key, id, t)
	a.saveClient(key)
}

// BeginTool opens a tool call's window.
func (a *Attribution) BeginTool(call wire.ToolCall, owner Key, t int64) {
	a.begin(call, owner, t)
	a.saveWindow(call.ToolUse)
}

// RecordToolProcess records which process carries out an open call of one of cachebro's own tools,
// and for which paths. It returns false if no such call is known.
func (a *Attribution) RecordToolProcess(call wire.ToolCall, owner Key) bool {
	a.mu.Lock()
	known := false
	for _, w := range slices.Backward(a.windows) {
		if w.Call.ToolUse == call.ToolUse && w.End == 0 {
			known = true
			w.Owner = owner
			w.Call.PID, w.Call.Paths = call.PID, call.Paths
			break
		}
	}
	a.mu.Unlock()
	if known {
		a.saveWindow(call.ToolUse)
	}
	return known
}

// EndTool closes a tool call's window.
func (a *Attribution) EndTool(toolUse string, background, failed bool, t int64) {
	a.finish(toolUse, background, failed, t)
	a.saveWindow(toolUse)
}

// EndCalls closes the windows of a reader that are still open when its turn ends. A client does not
// report the end of a call that a person has denied or interrupted.
func (a *Attribution) EndCalls(session store.SessionID, agent string, t int64) {
	var open []string
	a.mu.Lock()
	for _, w := range a.windows {
		if w.End == 0 && w.Call.Session == string(session) && w.Call.Agent == agent {
			open = append(open, w.Call.ToolUse)
		}
	}
	a.mu.Unlock()
	for _, use := range open {
		a.EndTool(use, false, false, t)
	}
}

// BeginAgent records that a prompt started a sub-agent at t (ns).
func (a *Attribution) BeginAgent(session store.SessionID, agent, prompt string, t int64) {
	if agent == "" || prompt == "" {
		return
	}
	a.mu.Lock()
	a.agents[agentKey{session, agent}] = prompt
	a.mu.Unlock()
	a.keep(keepAgent+string(session)+"/"+agent, keptAgent{string(session), agent, prompt, t})
}

// BeginPlan records that everything that owner writes from t (ns) on belongs to a plan.
func (a *Attribution) BeginPlan(id string, owner Key, t int64) {
	a.beginPlan(id, owner, t)
	a.keep(keepPlan+id, planWindow{Owner: owner, Begin: t})
}

// EndPlan records that the plan ended at t (ns).
func (a *Attribution) EndPlan(id string, t int64) {
	if w, ok := a.endPlan(id, t); ok {
		a.keep(keepPlan+id, w)
	}
}

func (a *Attribution) saveClient(key Key) {
	a.mu.Lock()
	list := slices.Clone(a.clients[key])
	a.mu.Unlock()
	a.keep(keepClient+key.String(), list)
}

// Open loads what the last daemon stored. After a reboot it discards everything, because no process
// survives it. If Open returns an error, the stored state is lost, but the result is usable.
func Open(st *store.Store, log *slog.Logger) (*Attribution, error) {
	a := newAttribution()
	a.store, a.log = st, log
	return a, a.load()
}

func (a *Attribution) load() error {
	kv := a.store.KV(bucket)
	boot := procfs.BootID()
	if b, ok, err := kv.Get(keepBoot); err != nil {
		return err
	} else if !ok || string(b) != boot {
		if err := dropAll(kv, ""); err != nil {
			return err
		}
		return kv.Set(keepBoot, []byte(boot))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := kv.Scan("", func(key string, val []byte) error {
		switch {
		case strings.HasPrefix(key, keepProcess):
			var p keptProcess
			if k, ok := parseProcKey(key[len(keepProcess):]); ok && json.Unmarshal(val, &p) == nil {
				a.procs[k] = &process{key: k, parent: Key{p.PPID, p.PStart}, uid: p.UID, comm: p.Comm, args: p.Args, session: p.Session, client: p.Client, seen: p.Seen}
			}
		case strings.HasPrefix(key, keepWindow):
			var w window
			if json.Unmarshal(val, &w) == nil {
				a.windows = append(a.windows, &w)
			}
		case strings.HasPrefix(key, keepPlan):
			p := planWindow{ID: key[len(keepPlan):]}
			if json.Unmarshal(val, &p) == nil {
				a.plans = append(a.plans, &p)
			}
		case strings.HasPrefix(key, keepAgent):
			var g keptAgent
			if json.Unmarshal(val, &g) == nil {
				a.agents[agentKey{store.SessionID(g.Session), g.Agent}] = g.Prompt
			}
		case strings.HasPrefix(key, keepClient):
			var list []sessionAt
			if k, ok := parseProcKey(key[len(keepClient):]); ok && json.Unmarshal(val, &list) == nil {
				a.clients[k] = list
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.sortLocked()
	sessions, err := a.store.Sessions.List(32)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		prompts, err := a.store.Sessions.AllPrompts(s.ID)
		if err != nil {
			return err
		}
		for _, p := range prompts {
			if p.Continues != "" {
				a.continues[p.ID] = p.Continues
			}
			a.prompts[s.ID] = append(a.prompts[s.ID], promptAt{p.Time, p.ID})
		}
	}
	return nil
}

// dropAll deletes the keys of a bucket that begin with prefix.
func dropAll(kv store.KV, prefix string) error {
	gone := map[string][]byte{}
	if err := kv.Scan(prefix, func(key string, _ []byte) error { gone[key] = nil; return nil }); err != nil || len(gone) == 0 {
		return err
	}
	return kv.SetAll(gone)
}

// keepFor is how long ended windows and inactive processes are stored on disk.
const keepFor = 24 * time.Hour

// ForgetOld deletes old entries from disk. It acts at most once an hour. Only one goroutine may
// call it.
func (a *Attribution) ForgetOld() {
	if time.Since(a.swept) < time.Hour {
		return
	}
	a.swept = time.Now()
	limit := time.Now().Add(-keepFor).UnixNano()
	kv := a.store.KV(bucket)
	gone := map[string][]byte{}
	err := kv.Scan("", func(key string, val []byte) error {
		var old bool
		switch {
		case strings.HasPrefix(key, keepProcess):
			var p keptProcess
			old = json.Unmarshal(val, &p) != nil || p.Seen < limit
			if k, ok := parseProcKey(key[len(keepProcess):]); old && ok {
				old = !Alive(int(k.PID), k.Start)
			}
		case strings.HasPrefix(key, keepWindow):
			var w window
			old = json.Unmarshal(val, &w) != nil || w.Begin < limit
		case strings.HasPrefix(key, keepAgent):
			var g keptAgent
			old = json.Unmarshal(val, &g) != nil || g.Began < limit
		case strings.HasPrefix(key, keepPlan):
			var p planWindow
			old = json.Unmarshal(val, &p) != nil || p.Begin < limit
		case strings.HasPrefix(key, keepClient):
			k, ok := parseProcKey(key[len(keepClient):])
			old = !ok || !Alive(int(k.PID), k.Start)
		}
		if old && len(gone) < 5000 {
			gone[key] = nil
		}
		return nil
	})
	if err == nil && len(gone) > 0 {
		err = kv.SetAll(gone)
	}
	if oldest, _, lerr := a.store.Log(store.Filter{Oldest: true, Limit: 1, Baselines: true}); err == nil && lerr == nil && len(oldest) > 0 {
		err = OpenProcesses(a.store).Forget(time.Unix(0, oldest[0].Time).Add(-keepFor))
	}
	if err != nil {
		a.log.Warn("forget old processes", "err", err)
	}
}
