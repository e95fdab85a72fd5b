package capture

import (
	"maps"
	"slices"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

type procKey struct {
	pid   uint32
	start uint64
}

// maxProcs bounds how many processes are remembered. A forgotten process is described again.
const maxProcs = 20_000

// appendBy appends records, and sets the caller of the first record. If the spool does not describe
// the process yet, the same write adds the description.
func (c *Capture) appendBy(by fusefs.Caller, rs ...*spool.Record) bool {
	r := rs[0]
	r.UID = by.UID
	r.PID = by.PID
	if by.Proc == nil {
		return c.append(rs...)
	}
	r.PID, r.Start = by.Proc.PID, by.Proc.Start
	if r.Kind == spool.KindVersion || r.Kind == spool.KindGit || r.Kind == spool.KindBeside {
		r.Line = c.lines.lineOf(by.Proc)
	}
	c.procMu.Lock()
	fresh := unspooled(c.procs, by.Proc)
	c.procMu.Unlock()
	if len(fresh) == 0 {
		return c.append(rs...)
	}
	all := make([]*spool.Record, 0, len(fresh)+len(rs))
	hasCommand := make([]bool, len(fresh))
	for i, p := range fresh {
		d := ProcessRecord(p, r.Time)
		hasCommand[i] = d.Args != ""
		all = append(all, d)
	}
	if !c.append(append(all, rs...)...) {
		return false
	}
	// Store the process in procs only after its description is in the log, because other goroutines
	// rely on that order. It does no harm if two goroutines describe the same process.
	c.procMu.Lock()
	if len(c.procs) >= maxProcs {
		clear(c.procs)
	}
	for i, p := range fresh {
		c.procs[procKey{p.PID, p.Start}] = spooledProcess{p.Comm, p.Image, hasCommand[i]}
	}
	c.procMu.Unlock()
	for i, p := range fresh {
		if !hasCommand[i] && p.Command() != nil {
			c.Described(p) // the command became known in the meantime
		}
	}
	return true
}

// spooledProcess describes a process as it is recorded in the spool.
type spooledProcess struct {
	comm    string
	image   uint64
	command bool
}

// ProcessRecord returns the record of a process, with its command if that is known.
func ProcessRecord(p *fusefs.Process, t int64) *spool.Record {
	d := &spool.Record{Kind: spool.KindProcess, PID: p.PID, Start: p.Start, UID: p.UID, Comm: p.Comm, Group: p.Group, Session: p.Session, Time: t}
	if p.Parent != nil {
		d.PPID, d.PStart = p.Parent.PID, p.Parent.Start
	}
	if cmd := p.Command(); cmd != nil {
		d.Args, d.Dir = cmd.Args(), cmd.Dir
	}
	return d
}

// Described records the command of a process whose description in the spool lacks it. If the spool has
// no description of the process yet, appendBy adds one, with the command, when the process does
// something.
func (c *Capture) Described(p *fusefs.Process) {
	key := procKey{p.PID, p.Start}
	c.procMu.Lock()
	t, ok := c.procs[key]
	late := ok && t.comm == p.Comm && t.image == p.Image && !t.command
	if late {
		c.procs[key] = spooledProcess{p.Comm, p.Image, true}
	}
	c.procMu.Unlock()
	if late {
		c.append(ProcessRecord(p, time.Now().UnixNano()))
	}
}

// unspooled returns p and its ancestors, oldest first, without those that the spool already has
// under their present program name.
func unspooled(procs map[procKey]spooledProcess, p *fusefs.Process) []*fusefs.Process {
	var list []*fusefs.Process
	for ; p != nil; p = p.Parent {
		if t, ok := procs[procKey{p.PID, p.Start}]; !ok || t.comm != p.Comm || t.image != p.Image {
			list = append(list, p)
		}
	}
	slices.Reverse(list)
	return list
}

// reading holds the files that one process opened since the last flush.
type reading struct {
	proc     *fusefs.Process
	uid      uint32
	paths    map[string]struct{}
	more     uint32
	openedAt int64 // ns, of the first open
}

// Opened records that a process opened a file to read it. Processes that belong to no session are
// skipped, because only the reads of sessions are stored.
func (c *Capture) Opened(f fusefs.File, by fusefs.Caller) {
	if by.Proc == nil || !inSession(by.Proc) {
		return
	}
	p := f.Path()
	if p == "" || c.Class(p, false) == ignore.Excluded {
		return
	}
	c.readMu.Lock()
	defer c.readMu.Unlock()
	r := c.readings[by.PID]
	if r == nil {
		r = &reading{proc: by.Proc, uid: by.UID, paths: map[string]struct{}{}, openedAt: time.Now().UnixNano()}
		c.readings[by.PID] = r
		c.note()
	}
	if len(r.paths) >= readsMax {
		r.more++
	} else {
		r.paths[p] = struct{}{}
	}
}

func inSession(p *fusefs.Process) bool {
	for ; p != nil; p = p.Parent {
		if len(p.Session) > 0 {
			return true
		}
	}
	return false
}

// flushReads appends the reads since the last flush. A process that read readsMax or more files
// counts as a scanner, and only the number of its files is recorded.
func (c *Capture) flushReads() {
	c.readMu.Lock()
	if len(c.readings) == 0 {
		c.readMu.Unlock()
		return
	}
	reads := c.readings
	c.readings = map[uint32]*reading{}
	c.readMu.Unlock()
	for _, r := range reads {
		// The record has the time of the first open, because the process usually writes after that,
		// and its tool call may have ended by now.
		rec := &spool.Record{Kind: spool.KindReads, Time: r.openedAt, More: r.more}
		if len(r.paths) < readsMax {
			rec.Paths = slices.Collect(maps.Keys(r.paths))
		} else {
			rec.More += uint32(len(r.paths))
		}
		c.appendBy(fusefs.Caller{PID: r.proc.PID, UID: r.uid, Proc: r.proc}, rec)
	}
}
