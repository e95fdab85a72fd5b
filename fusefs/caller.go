//go:build linux || darwin

package fusefs

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"cachebro/store/leaf/cmdline"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/procfs"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	trustWrite  = 50 * time.Millisecond // how long cached data about a process is trusted
	trustRead   = time.Second
	maxAncestry = 32
	youth       = 2 * time.Second // a process older than this is assumed not to exec another program
	maxProcs    = 4096            // limit on cached threads and processes; when it is exceeded, the cache is cleared
	freePeeks   = 4               // how many files a young program may begin to write before it is examined less often
)

// processes finds the process of a thread. The kernel sends the thread's id in our pid namespace,
// or 0 if the thread has no id there.
type processes struct {
	mu   sync.Mutex // guards tids, pids
	tids map[uint32]thread
	pids map[uint32]cachedProcess

	commands commands
}

type thread struct {
	proc   *Process
	groups []uint32
	readAt time.Time
}

type cachedProcess struct {
	proc   *Process
	readAt time.Time
}

func newProcesses() *processes {
	return &processes{tids: make(map[uint32]thread), pids: make(map[uint32]cachedProcess), commands: commands{slots: make(chan struct{}, commandsAtOnce), ask: commandOf}}
}

// caller finds the process that sent a request. For a writer, a cached result may be at most 50 ms
// old.
func (o *contents) caller(in *fuse.InHeader, writes bool) Caller {
	c := Caller{TID: in.Pid, UID: in.Uid, GID: in.Gid}
	if in.Pid == 0 {
		return c
	}
	trust := trustRead
	if writes {
		trust = trustWrite
	}
	c.Proc = o.procs.thread(in.Pid, trust).proc
	if c.Proc != nil {
		c.PID = c.Proc.PID
	} else {
		c.PID = in.Pid
	}
	return c
}

// execWait limits how long a process that closes a file is examined, which usually takes 20 to 100
// µs.
const execWait = 20 * time.Millisecond

// closer finds the process that closes a file. An exec closes the close-on-exec descriptors, and
// meanwhile the kernel (6.18) blocks every read of the process's /proc/PID/stat. If closer waited
// for such a read, the exec and every ps would hang. So closer stops waiting after execWait and
// returns what was known before.
func (o *contents) closer(in *fuse.InHeader) Caller {
	if c, ok := o.procs.recent(in); ok || in.Pid == 0 {
		return c
	}
	seen := make(chan Caller, 1)
	o.dirty.wg.Add(1)
	head := *in
	go func() { // ends with the exec, which waits only for our reply
		defer o.dirty.wg.Done()
		seen <- o.procs.refresh(o.caller(&head, true))
	}()
	select {
	case c := <-seen:
		return c
	case <-time.After(execWait):
	}
	c := Caller{TID: in.Pid, PID: in.Pid, UID: in.Uid, GID: in.Gid}
	o.procs.mu.Lock()
	defer o.procs.mu.Unlock()
	if p := o.procs.tids[in.Pid].proc; p != nil {
		c.PID, c.Proc = p.PID, p
	}
	return c
}

// recent returns a caller from the cache if it was looked up less than trustWrite ago, usually when
// the file was opened or first written. For a young process, it also checks that the process's name
// has not changed. Reading the name does not wait for an exec.
func (p *processes) recent(in *fuse.InHeader) (Caller, bool) {
	c := Caller{TID: in.Pid, PID: in.Pid, UID: in.Uid, GID: in.Gid}
	p.mu.Lock()
	t := p.tids[in.Pid]
	var k cachedProcess
	if t.proc != nil {
		k = p.pids[t.proc.PID]
	}
	p.mu.Unlock()
	if now := time.Now(); k.proc == nil || k.proc.Start != t.proc.Start || now.Sub(t.readAt) >= trustWrite || now.Sub(k.readAt) >= trustWrite {
		return c, false
	}
	c.PID, c.Proc = k.proc.PID, k.proc
	if !k.proc.young() {
		return c, true
	}
	comm, err := procfs.Comm(int(k.proc.PID))
	return c, err == nil && comm == k.proc.Comm
}

// thread returns the cached facts about a thread. It looks them up again if they are older than
// trust.
func (p *processes) thread(tid uint32, trust time.Duration) thread {
	p.mu.Lock()
	t, ok := p.tids[tid]
	p.mu.Unlock()
	now := time.Now()
	if ok && now.Sub(t.readAt) < trust {
		return t
	}
	pid, groups, ok := procfs.Thread(int(tid))
	if !ok {
		return thread{}
	}
	t = thread{proc: p.process(uint32(pid), trust, 0), groups: groups, readAt: now}
	p.mu.Lock()
	if len(p.tids) >= maxProcs {
		clear(p.tids)
	}
	p.tids[tid] = t
	p.mu.Unlock()
	return t
}

// process describes a process and its ancestors. A description that was read less than trust ago is
// reused.
func (p *processes) process(pid uint32, trust time.Duration, depth int) *Process {
	if pid == 0 || depth > maxAncestry {
		return nil
	}
	p.mu.Lock()
	k, ok := p.pids[pid]
	p.mu.Unlock()
	now := time.Now()
	if ok && now.Sub(k.readAt) < trust {
		return k.proc
	}
	if depth > 0 {
		return p.look(pid, k, depth, now)
	}
	seen := make(chan *Process, 1)
	go func() { seen <- p.look(pid, k, depth, now) }()
	select {
	case proc := <-seen:
		return proc
	case <-time.After(lookWait):
		return k.proc
	}
}

// isStill reports whether st describes the process p, with the same parent and program as before.
func (p *Process) isStill(st procfs.Stat) bool {
	if st.Image != 0 && p.Image != st.Image {
		return false
	}
	if p.Start != st.Start || p.Comm != st.Comm {
		return false
	}
	return p.Group == uint32(st.Group) && parentPID(p) == uint32(st.Parent)
}

// lookWait limits how long look may take. Reading a process's data blocks while the process
// executes another program or handles a page fault. The process may in turn be waiting for a reply
// from this server, for which the server needs a lock held by look's caller.
const lookWait = time.Second

// look reads the system's data about a process. k is the cached entry for the process.
func (p *processes) look(pid uint32, k cachedProcess, depth int, now time.Time) *Process {
	st, err := procfs.ReadStat(int(pid))
	if err != nil {
		return nil
	}
	proc := k.proc
	if proc == nil || !proc.isStill(st) {
		// exec(2) keeps the pid and the start time but changes the name.
		proc = &Process{
			PID: pid, Start: st.Start, Comm: st.Comm, UID: ownerOf(pid),
			Group: uint32(st.Group), Leader: uint32(st.Session), Terminal: st.Terminal, Image: st.Image,
		}
		p.commands.read(proc)
		proc.Session = readSession(pid)
		proc.Parent = p.process(uint32(st.Parent), trustRead, depth+1)
		if old := k.proc; old != nil && old.Start == st.Start {
			keepOld(proc, old)
		}
	}
	proc.Front.Store(st.Terminal != 0 && st.Foreground == st.Group)
	p.mu.Lock()
	if len(p.pids) >= maxProcs {
		clear(p.pids)
	}
	p.pids[pid] = cachedProcess{proc, now}
	p.mu.Unlock()
	return proc
}

// keepOld copies data from an earlier look to proc. A process that ends frees its memory before it
// closes its descriptors, so at the last close the data cannot be read.
func keepOld(proc, old *Process) {
	if proc.Session == nil {
		proc.Session = old.Session
	}
	if proc.Parent == nil {
		proc.Parent = old.Parent
	}
}

func parentPID(p *Process) uint32 {
	if p.Parent == nil {
		return 0
	}
	return p.Parent.PID
}

// refresh examines c's process again, because a shell may have executed the command in its own
// process since the open. This only happens early in a process's life.
func (p *processes) refresh(c Caller) Caller {
	if c.Proc == nil {
		return c
	}
	trust := trustWrite
	if c.Proc.young() {
		trust = 0
	}
	if now := p.process(c.Proc.PID, trust, 0); now != nil && now.Start == c.Proc.Start {
		c.Proc = now
	}
	return c
}

// peek examines in the background whether a writing process has become another program since the
// open, as with "command >file". At the close it may be too late, because the process and its
// command line may be gone. An examination takes a third as long as making a file. So a program
// that makes many files is examined only once per trustWrite. looks reports whether an examination
// was started.
func (p *processes) peek(proc *Process) (looks bool) {
	if p.commands.disabled || proc == nil || !proc.young() {
		return false
	}
	now := time.Now().UnixNano()
	if last := proc.peeked.Swap(now); proc.peeks.Add(1) > freePeeks && now-last < int64(trustWrite) {
		proc.peeked.Store(last)
		return false
	}
	return p.commands.begin(func() {
		st, err := procfs.ReadStat(int(proc.PID))
		otherProgram := st.Comm != proc.Comm || st.Image != 0 && st.Image != proc.Image
		if err == nil && st.Start == proc.Start && otherProgram {
			// The start of the stack, which is part of Image, gets its final value shortly after
			// the arguments.
			if _, err := commandLine(proc.PID); err == nil {
				time.Sleep(time.Millisecond)
			}
			p.process(proc.PID, 0, 0)
		}
	})
}

// young reports whether p may still exec another program.
func (p *Process) young() bool {
	age, ok := procfs.Age(p.Start)
	return ok && age < youth
}

// readSession returns the session variables in the environment of a process, or nil if there are
// none or they may not be read.
func readSession(pid uint32) map[string]string {
	b, err := procfs.Environ(int(pid))
	if err != nil {
		return nil
	}
	var m map[string]string
	for v := range bytes.SplitSeq(b, []byte{0}) {
		for _, name := range event.SessionVariables {
			if len(v) > len(name) && v[len(name)] == '=' && strings.HasPrefix(string(v[:len(name)]), name) {
				if m == nil {
					m = make(map[string]string, 1)
				}
				m[name] = string(v[len(name)+1:])
			}
		}
	}
	return m
}

// ownerOf returns the effective user of a process. If it cannot be read, ownerOf returns an id that
// no user has.
func ownerOf(pid uint32) uint32 {
	if uid, ok := procfs.Owner(int(pid)); ok {
		return uid
	}
	return ^uint32(0)
}

// Callers finds the process of a thread for code that observes system calls without a mount.
type Callers struct{ procs *processes }

// NewCallers returns a Callers that calls described when the command of a process becomes known.
func NewCallers(described func(*Process)) *Callers {
	c := &Callers{newProcesses()}
	c.procs.commands.tell = described
	return c
}

// Of returns the process of a thread that is about to change something.
func (c *Callers) Of(tid uint32) Caller {
	by := Caller{PID: tid, TID: tid}
	by.Proc = c.procs.thread(tid, trustWrite).proc
	if by.Proc != nil {
		by.PID, by.UID = by.Proc.PID, by.Proc.UID
	}
	return by
}

const (
	// commandMax limits how much of a command line is read, because some are megabytes long.
	commandMax = 4 << 10
	// commandsAtOnce limits concurrent reads. The first look at a process reads all its ancestors
	// too, and each read occupies a thread for as long as the process hangs.
	commandsAtOnce = 64
	// execMax is the longest pause while waiting for an exec to end. Each pause is twice the one
	// before.
	execMax = 32 * time.Millisecond
)

// commands reads the command lines of processes. To read one, the kernel needs the lock on the
// process's memory, which the process may hold while it waits for a reply from this server. So no
// request waits for this reader. If a command line is not read in time, only the process's name is
// known.
type commands struct {
	disabled bool
	slots    chan struct{}  // one slot for each read in progress; never closed
	tell     func(*Process) // called with a process whose command was read; may be nil
	ask      func(*Process) *Command
}

// read begins to read the command of a process that was just found.
func (c *commands) read(p *Process) {
	if c.disabled {
		return
	}
	c.begin(func() {
		if cmd := c.ask(p); cmd != nil {
			p.command.Store(cmd)
			if c.tell != nil {
				c.tell(p)
			}
		}
	})
}

// begin runs look in the background if a slot is free. Nothing waits for look, which ends when the
// command line can be read or the process has ended.
func (c *commands) begin(look func()) (begun bool) {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-c.slots }()
		look()
	}()
	return true
}

// commandLine reads the beginning of a command line. In the middle of an exec, a process has its
// new name but no arguments yet, so commandLine retries.
func commandLine(pid uint32) (b []byte, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		b, err = procfs.Begin(int(pid), commandMax)
		if err != nil || len(b) > 0 || pause > execMax {
			return b, err
		}
		time.Sleep(pause)
	}
}

// commandOf reads the command line of p. It returns nil if it cannot, or if the pid now belongs to
// another process or program.
func commandOf(p *Process) *Command {
	b, err := commandLine(p.PID)
	if err != nil || len(b) == 0 {
		return nil
	}
	dir, cut := procfs.Dir(int(p.PID)), len(b) == commandMax
	if st, err := procfs.ReadStat(int(p.PID)); err != nil || st.Start != p.Start || st.Comm != p.Comm || st.Image != p.Image {
		return nil
	}
	args := procfs.SplitArgs(b)
	if last := len(args) - 1; cut && b[len(b)-1] != 0 { // the last word may be incomplete
		if i := strings.LastIndexAny(args[last], " \t\n"); i > 0 {
			args[last] = args[last][:i]
		} else {
			args = args[:last]
		}
	}
	return &Command{Args: sync.OnceValue(func() string { return cmdline.Pack(cmdline.Mask(args), cut) }), Dir: dir}
}
