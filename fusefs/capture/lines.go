package capture

import (
	"sync"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/cmdline"
)

// lines tells which line of a terminal a process works for. What the foreground of a
// terminal does between two inputs is one line: a shell and all jobs that it ran before
// it read the terminal again. A background job is no part of a line; nor is what has no
// terminal.
//
// Shells are asked about at each record. Of other programs the first one decides for
// their process group, so that an editor, which reads the terminal all the time, stays
// one job.
type lines struct {
	mu        sync.Mutex // guards what follows
	groups    map[uint32]*group
	terminals map[terminalID]*terminal
	typed     typed
	last      int64 // the newest line
}

// group is a process group with a terminal.
type group struct {
	session uint32
	leader  uint64 // when its leader started; 0: not known
	line    int64  // 0: it is in the background
	seen    int64  // ns, when it did something last
}

type terminalID struct {
	session uint32
	number  uint64
}

// terminal is one with its present line.
type terminal struct {
	line  int64
	seen  int64 // ns, when something was done there last
	watch int   // what typed calls it; 0: it is not watched
	read  bool  // since the line began
}

const (
	// linePause ends a line where nobody can tell that the terminal was read.
	linePause = int64(time.Second)
	// groupRest is after how long a process group may be another of the same number.
	groupRest    = int64(time.Minute)
	maxGroups    = 4096
	maxTerminals = 256
)

func newLines() *lines {
	return &lines{groups: map[uint32]*group{}, terminals: map[terminalID]*terminal{}}
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed.close()
}

// of is the line that a process works for, a number that grows; 0: none.
func (l *lines) of(p *fusefs.Process) int64 {
	if p == nil || p.Terminal == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, shell := time.Now().UnixNano(), ofShell(p)
	g := l.groups[p.Group]
	another := g != nil && (g.session != p.Leader || now-g.seen > groupRest || p.PID == p.Group && g.leader != 0 && g.leader != p.Start)
	if g == nil || another || shell {
		if len(l.groups) >= maxGroups {
			clear(l.groups)
		}
		g = &group{session: p.Leader}
		l.groups[p.Group] = g
		if p.Front.Load() || p.Group == p.Leader {
			g.line = l.present(p, now)
		}
	}
	if p.PID == p.Group {
		g.leader = p.Start
	}
	g.seen = now
	return g.line
}

// ofShell reports whether a shell leads the group of a process, and the process is it or
// comes from it.
func ofShell(p *fusefs.Process) bool {
	for group := p.Group; p != nil && p.Group == group; p = p.Parent {
		if p.PID == group {
			return cmdline.IsShell(p.Comm)
		}
	}
	return false
}

// present is the line that a process's terminal is at.
func (l *lines) present(p *fusefs.Process, now int64) int64 {
	id := terminalID{p.Leader, p.Terminal}
	t := l.terminals[id]
	if t == nil {
		if len(l.terminals) >= maxTerminals {
			clear(l.terminals)
			l.typed.close()
		}
		t = &terminal{read: true}
		l.terminals[id] = t
	}
	for watch := range l.typed.since() {
		for _, o := range l.terminals {
			if o.watch == watch {
				o.read, o.watch = true, 0
			}
		}
	}
	if t.read || t.watch == 0 && now-t.seen > linePause {
		t.read, l.last = false, max(now, l.last+1)
		t.line, t.watch = l.last, l.typed.watch(p)
		for _, o := range l.terminals {
			if o != t && o.watch == t.watch && t.watch != 0 {
				o.read, o.watch = true, 0 // the session before had the same terminal
			}
		}
	}
	t.seen = now
	return t.line
}
