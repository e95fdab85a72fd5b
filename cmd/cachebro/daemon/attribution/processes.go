package attribution

import (
	"encoding/json"
	"sort"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/cmdline"
)

// This file stores what is known of the processes that changed something: their command
// line, directory, user and parent. A version contains only the pid and start time of its process.
//
// One row in the store's KV bucket "process" holds one program of one process, under
// "pid.start/name", because exec starts another program in the same process. Rows are small
// and without secrets, which mountd and the clients' hooks remove. The methods of a
// ProcessBook may be called concurrently.

// ProcessBucket is the KV bucket of the rows.
const ProcessBucket = "process"

// maxRows bounds the rows, because a build has thousands of processes.
const maxRows = 50_000

// Process describes one program that a process ran.
type Process struct {
	Key
	Parent Key
	UID    uint32
	Group  uint32 // process group: everything that a shell started as one job
	Comm   string
	Args   []string // the first arguments, then cmdline.More if there are more; nil if not known
	Dir    string   // working directory, "" unknown
	Seen   int64    // ns since the epoch, when it was last described
}

type row struct {
	PPID   uint32 `json:"pp,omitempty"`
	PStart uint64 `json:"ps,omitempty"`
	UID    uint32 `json:"u,omitempty"`
	Group  uint32 `json:"g,omitempty"`
	Args   []byte `json:"a,omitempty"` // separated by NUL, as in the spool
	Dir    []byte `json:"d,omitempty"`
	Seen   int64  `json:"t"`
}

// ProcessRow returns the row that stores a process.
func ProcessRow(p Process) (key string, val []byte) {
	val, err := json.Marshal(row{p.Parent.PID, p.Parent.Start, p.UID, p.Group, []byte(strings.Join(p.Args, "\x00")), []byte(p.Dir), p.Seen})
	if err != nil {
		return "", nil
	}
	return p.Key.String() + "/" + p.Comm, val
}

func parse(key string, val []byte) (p Process, ok bool) {
	var r row
	id, comm, found := strings.Cut(key, "/")
	p.Key, ok = parseProcKey(id)
	if !ok || !found || json.Unmarshal(val, &r) != nil {
		return p, false
	}
	p.Parent = Key{r.PPID, r.PStart}
	p.UID = r.UID
	p.Group = r.Group
	p.Comm = comm
	p.Dir = string(r.Dir)
	p.Seen = r.Seen
	p.Args = cmdline.Unpack(string(r.Args))
	return p, true
}

// ProcessBook reads the rows.
type ProcessBook struct{ kv store.KV }

// OpenProcesses returns the book of a store.
func OpenProcesses(st *store.Store) ProcessBook { return ProcessBook{st.KV(ProcessBucket)} }

// Keep writes rows. A nil value deletes the row.
func (b ProcessBook) Keep(rows map[string][]byte) error { return b.kv.SetAll(rows) }

// Programs returns all programs that a process is known to have run, oldest first.
func (b ProcessBook) Programs(id Key) ([]Process, error) {
	var all []Process
	err := b.kv.Scan(id.String()+"/", func(key string, val []byte) error {
		if p, ok := parse(key, val); ok {
			all = append(all, p)
		}
		return nil
	})
	sort.SliceStable(all, func(i, j int) bool { return all[i].Seen < all[j].Seen })
	return all, err
}

// FillCommandLines returns a function that fills in the command line of a version's process. mountd
// may learn a command line only after it has reported the version, because no write waits for that.
// The function caches its lookups, so it serves one query.
func (b ProcessBook) FillCommandLines() func(*store.Version) {
	type program struct {
		Key
		comm string
	}
	known := map[program]string{}
	return func(v *store.Version) {
		a := &v.Actor
		if a.Args != "" || a.PID == 0 || a.Start == 0 {
			return
		}
		key := program{Key{a.PID, a.Start}, a.Comm}
		words, ok := known[key]
		if !ok {
			all, _ := b.Programs(key.Key) // on an error, only the pid is shown
			for _, p := range all {
				if p.Comm == a.Comm {
					words = strings.Join(p.Args, " ")
				}
			}
			known[key] = words
		}
		a.Args = words
	}
}

// Forget drops rows last seen before t and, if more than maxRows remain, the oldest of them.
func (b ProcessBook) Forget(t time.Time) error {
	type aged struct {
		key  string
		seen int64
	}
	var all []aged
	gone := map[string][]byte{}
	err := b.kv.Scan("", func(key string, val []byte) error {
		if p, ok := parse(key, val); !ok || p.Seen < t.UnixNano() {
			gone[key] = nil
		} else {
			all = append(all, aged{key, p.Seen})
		}
		return nil
	})
	if over := len(all) - maxRows; over > 0 {
		sort.Slice(all, func(i, j int) bool { return all[i].seen < all[j].seen })
		for _, a := range all[:over] {
			gone[a.key] = nil
		}
	}
	if err != nil || len(gone) == 0 {
		return err
	}
	return b.kv.SetAll(gone)
}
