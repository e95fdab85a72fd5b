package capture

import (
	"sync"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/cmdline"
)

// lines finds the command line for which a process works. A command line here is one that was
// entered in a terminal. Everything that the foreground processes of a terminal do between two
// inputs belongs to one line. Background jobs and processes without a terminal belong to no line.
//
// The line of a shell is looked up for each record. The line of another program is looked up only
// at its process group's first record, because a program such as an editor reads the terminal all
// the time but remains one job.
type lines struct {
	mu        sync.Mutex // guards the fields below
	groups    map[uint32]*group
	terminals map[terminalID]*terminal
	typed     typed
	last      int64 // the newest line
}

// group is a process group with a terminal.
type group struct {
	session  uint32
	leader   uint64 // start time of the session leader; 0 if unknown
	line     int64  // 0 for a group in the background
	activeAt int64  // ns of the last action
}

type terminalID struct {
	session uint32
	number  uint64
}

type terminal struct {
	line     int64
	activeAt int64 // ns of the last action
	watch    int   // id of its watch in typed; 0 if not watched
	read     bool  // the terminal was read since the line began
}

const (
	// linePause is the pause that ends a line if the terminal cannot be watched.
	linePause = int64(time.Second)
	// groupRest is the time without an action after which the id of a process group may have been
	// reused.
	groupRest    = int64(time.Minute)
	maxGroups    = 4096
	maxTerminals = 256
)

// isAnother reports whether the id of the group was reused: p belongs to a later group.
func (g *group) isAnother(p *fusefs.Process, now int64) bool {
	if g.session != p.Leader || now-g.activeAt > groupRest {
		return true
	}
	return p.PID == p.Group && g.leader != 0 && g.leader != p.Start
}

func newLines() *lines {
	return &lines{groups: map[uint32]*group{}, terminals: map[terminalID]*terminal{}}
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed.close()
}

// lineOf returns the number of the line that a process works for, or 0. Later lines have greater
// numbers.
func (l *lines) lineOf(p *fusefs.Process) int64 {
	if p == nil || p.Terminal == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, shell := time.Now().UnixNano(), ofShell(p)
	g := l.groups[p.Group]
	if g == nil || shell || g.isAnother(p, now) {
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
	g.activeAt = now
	return g.line
}

// ofShell reports whether a shell leads the process group of p, and p is that shell or one of its
// descendants in the group.
func ofShell(p *fusefs.Process) bool {
	for group := p.Group; p != nil && p.Group == group; p = p.Parent {
		if p.PID == group {
			return cmdline.IsShell(p.Comm)
		}
	}
	return false
}

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
	for watch := range l.typed.readTerminals() {
		for _, o := range l.terminals {
			if o.watch == watch {
				o.read, o.watch = true, 0
			}
		}
	}
	if t.read || t.watch == 0 && now-t.activeAt > linePause {
		t.read, l.last = false, max(now, l.last+1)
		t.line, t.watch = l.last, l.typed.watch(p)
		for _, o := range l.terminals {
			if o != t && o.watch == t.watch && t.watch != 0 {
				o.read, o.watch = true, 0 // an earlier session had the same terminal
			}
		}
	}
	t.activeAt = now
	return t.line
}
