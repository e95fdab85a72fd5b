package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cachebro/fusefs/capture/spool"
	"cachebro/fusefs/procfs"
	"cachebro/store"
	"cachebro/store/wire"
)

// What attribution knows has to outlive the daemon: mountd introduces a process
// once, and a tool call may be running while the daemon is restarted. It lies
// in the KV bucket "attribution", keyed by the kind of entry.
const (
	keepProcess = "p/" // pid.start → keptProcess
	keepWindow  = "w/" // tool use → keptWindow
	keepClient  = "c/" // pid.start → []keptSession
	keepPlan    = "l/" // plan → keptPlan
	keepBoot    = "boot"
)

type keptProcess struct {
	PPID    uint32 `json:"pp,omitempty"`
	PStart  uint64 `json:"ps,omitempty"`
	UID     uint32 `json:"u,omitempty"`
	Comm    string `json:"c,omitempty"`
	Args    string `json:"a,omitempty"`
	Session string `json:"s,omitempty"`
	Seen    int64  `json:"t"`
}

type keptWindow struct {
	Call  wire.ToolCall `json:"call"`
	Owner procKey       `json:"owner"`
	Begin int64         `json:"begin"`
	End   int64         `json:"end,omitempty"`
}

type keptPlan struct {
	Owner procKey `json:"owner"`
	Begin int64   `json:"begin"`
	End   int64   `json:"end,omitempty"`
}

type keptSession struct {
	Time    int64  `json:"t"`
	Session string `json:"s"`
}

func (k procKey) String() string { return fmt.Sprintf("%d.%d", k.PID, k.Start) }

func parseProcKey(s string) (k procKey, ok bool) {
	n, err := fmt.Sscanf(s, "%d.%d", &k.PID, &k.Start)
	return k, err == nil && n == 2
}

func (d *Daemon) keep(key string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = d.store.KV("attribution").Set(key, b)
	}
	if err != nil { // it costs attribution after a restart, no content
		d.log.Warn("not kept for the next daemon", "key", key, "err", err)
	}
}

// keptProcessOf is what is kept of the process that a record introduced. A build
// brings thousands of them, so the ingester keeps a batch's in one step.
func (d *Daemon) keptProcessOf(r *spool.Record) (key string, val []byte) {
	k := procKey{r.PID, r.Start}
	d.attribution.mu.Lock()
	p := d.attribution.procs[k]
	d.attribution.mu.Unlock()
	if p == nil {
		return "", nil
	}
	val, err := json.Marshal(keptProcess{p.parent.PID, p.parent.Start, p.uid, p.comm, p.args, p.session, p.seen})
	if err != nil {
		return "", nil
	}
	return keepProcess + k.String(), val
}

func (d *Daemon) saveWindow(toolUse string) {
	a := d.attribution
	a.mu.Lock()
	var k *keptWindow
	for i := len(a.windows) - 1; i >= 0 && k == nil; i-- {
		if w := a.windows[i]; w.call.ToolUse == toolUse {
			k = &keptWindow{w.call, w.owner, w.begin, w.end}
		}
	}
	a.mu.Unlock()
	if k != nil {
		d.keep(keepWindow+toolUse, k)
	}
}

func (d *Daemon) saveClient(key procKey) {
	d.attribution.mu.Lock()
	var list []keptSession
	for _, s := range d.attribution.clients[key] {
		list = append(list, keptSession{s.time, string(s.session)})
	}
	d.attribution.mu.Unlock()
	d.keep(keepClient+key.String(), list)
}

// loadAttribution takes back what the last daemon knew. After a reboot none of
// the processes is the same.
func (d *Daemon) loadAttribution() error {
	kv := d.store.KV("attribution")
	boot := procfs.BootID()
	if b, ok, err := kv.Get(keepBoot); err != nil {
		return err
	} else if !ok || string(b) != boot {
		if err := dropAll(kv, ""); err != nil {
			return err
		}
		return kv.Set(keepBoot, []byte(boot))
	}
	a := d.attribution
	a.mu.Lock()
	defer a.mu.Unlock()
	err := kv.Scan("", func(key string, val []byte) error {
		switch {
		case strings.HasPrefix(key, keepProcess):
			var p keptProcess
			if k, ok := parseProcKey(key[len(keepProcess):]); ok && json.Unmarshal(val, &p) == nil {
				a.procs[k] = &process{key: k, parent: procKey{p.PPID, p.PStart}, uid: p.UID, comm: p.Comm, args: p.Args, session: p.Session, seen: p.Seen}
			}
		case strings.HasPrefix(key, keepWindow):
			var w keptWindow
			if json.Unmarshal(val, &w) == nil {
				a.windows = append(a.windows, &window{call: w.Call, owner: w.Owner, begin: w.Begin, end: w.End})
			}
		case strings.HasPrefix(key, keepPlan):
			var p keptPlan
			if json.Unmarshal(val, &p) == nil {
				a.plans = append(a.plans, &planWindow{id: key[len(keepPlan):], owner: p.Owner, begin: p.Begin, end: p.End})
			}
		case strings.HasPrefix(key, keepClient):
			var list []keptSession
			if k, ok := parseProcKey(key[len(keepClient):]); ok && json.Unmarshal(val, &list) == nil {
				for _, s := range list {
					a.clients[k] = append(a.clients[k], sessionAt{s.Time, store.SessionID(s.Session)})
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.sortLocked()
	sessions, err := d.store.Sessions(32)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		prompts, err := d.store.Prompts(s.ID)
		if err != nil {
			return err
		}
		for _, p := range prompts {
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

// keepFor is how long ended windows and silent processes are kept on disk.
const keepFor = 24 * time.Hour

// forgetOld bounds what is kept on disk. It runs from housekeeping, and does
// something once an hour.
func (d *Daemon) forgetOld() {
	if time.Since(d.swept) < time.Hour {
		return
	}
	d.swept = time.Now()
	limit := time.Now().Add(-keepFor).UnixNano()
	kv := d.store.KV("attribution")
	gone := map[string][]byte{}
	err := kv.Scan("", func(key string, val []byte) error {
		var old bool
		switch {
		case strings.HasPrefix(key, keepProcess):
			var p keptProcess
			old = json.Unmarshal(val, &p) != nil || p.Seen < limit
			if k, ok := parseProcKey(key[len(keepProcess):]); old && ok {
				old = !alive(int(k.PID), k.Start)
			}
		case strings.HasPrefix(key, keepWindow):
			var w keptWindow
			old = json.Unmarshal(val, &w) != nil || w.Begin < limit
		case strings.HasPrefix(key, keepPlan):
			var p keptPlan
			old = json.Unmarshal(val, &p) != nil || p.Begin < limit
		case strings.HasPrefix(key, keepClient):
			k, ok := parseProcKey(key[len(keepClient):])
			old = !ok || !alive(int(k.PID), k.Start)
		}
		if old && len(gone) < 5000 {
			gone[key] = nil
		}
		return nil
	})
	if err == nil && len(gone) > 0 {
		err = kv.SetAll(gone)
	}
	if err != nil {
		d.log.Warn("forget old processes", "err", err)
	}
}
