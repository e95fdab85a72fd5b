package actions

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/hooks/clients"
	"cachebro/store"
	"cachebro/store/leaf/cmdline"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const (
	maxWords    = 500 // length of a command in an answer, in bytes
	maxExpanded = 90  // the same limit if a shell may have expanded the arguments
)

// starters are terminals and servers. Each process that a starter or an agent starts is a separate
// action.
var starters = []string{
	"tmux", "tmux: server", "screen", "sshd", "sshd-session", "login", "systemd", "init", "cron", "crond", "kitty", "alacritty", "konsole", "xterm", "wezterm-gui",
}

// job is a group of processes that a shell started as one job.
type job struct {
	root attribution.Process // the topmost process of its group
	ok   bool                // the process is known
	// group is the job's process group, which all elements of a pipeline share. It is 0 if it is
	// not known, or if an agent or a terminal is in the group too.
	group uint32
}

// describer describes actions and their authors. It serves one query, and caches its lookups.
type describer struct {
	s        *Service
	programs map[attribution.Key][]attribution.Process
	jobs     map[jobKey]job
	calls    map[string]*store.ToolCall
	sessions map[store.SessionID]*store.Session
	prompts  map[store.SessionID][]store.Prompt
	also     map[string]map[store.Path]string // action, path → who else changed the path during the action
}

type jobKey struct {
	id   attribution.Key
	comm string
}

func (s *Service) newDescriber() *describer {
	return &describer{s: s, programs: map[attribution.Key][]attribution.Process{}, jobs: map[jobKey]job{}, calls: map[string]*store.ToolCall{},
		sessions: map[store.SessionID]*store.Session{}, prompts: map[store.SessionID][]store.Prompt{}, also: map[string]map[store.Path]string{}}
}

// maxLife bounds how many versions of an empty file are read to find the one that made it.
const maxLife = 8

// attributedTo returns the version whose author counts as the author of v. That is v itself, except
// for the removal of a placeholder, which is attributed to the version that made the placeholder.
// Placeholders are files and directories that were always empty. Bubblewrap makes them in the tree
// as mount points, and the client that ran bubblewrap removes them after the command. So the
// removing process must be the one that made the placeholder, or an ancestor of it.
func (w *describer) attributedTo(v store.Version) store.Version {
	if v.Op != store.OpUnlink && v.Op != store.OpRmdir || v.Plan != "" || v.Actor.PID == 0 {
		return v
	}
	if v.Actor.Line != 0 && v.Actor.Session == "" {
		return v // a person typed it as a separate command
	}
	for made, n := v, 0; n < maxLife && made.Prev != 0; n++ {
		var err error
		made, err = w.s.store.Version(made.Prev)
		if err != nil || made.Plan != "" || made.Stat.Size > 0 && !dirMode(made.Stat.Mode) {
			return v
		}
		switch made.Op {
		case store.OpWrite, store.OpTruncate, store.OpChmod:
		case store.OpCreate, store.OpMkdir:
			if w.startedBy(made.Actor, v.Actor) && (v.Op == store.OpUnlink || w.wasAlwaysEmpty(made, v)) {
				return made
			}
			return v
		default:
			return v
		}
	}
	return v
}

// wasAlwaysEmpty reports whether a directory contained only empty files and directories between
// two versions of it.
func (w *describer) wasAlwaysEmpty(made, removed store.Version) bool {
	nothing := true
	err := w.s.store.View(func(view *store.View) error {
		f := store.Filter{Path: made.Path, After: made.Seq, Before: removed.Seq, Oldest: true}
		return view.Each(f, func(o store.Version) bool {
			switch o.Op {
			case store.OpCreate, store.OpWrite, store.OpTruncate, store.OpChmod, store.OpUnlink, store.OpMkdir, store.OpRmdir:
				nothing = o.Deleted() || dirMode(o.Stat.Mode) || o.Stat.Size == 0
			default:
				nothing = false
			}
			return nothing
		})
	})
	return err == nil && nothing
}

// startedBy reports whether process a is the process of ancestor, or one of its descendants.
func (w *describer) startedBy(a, ancestor store.Actor) bool {
	id, above := attribution.Key{PID: a.PID, Start: a.Start}, attribution.Key{PID: ancestor.PID, Start: ancestor.Start}
	if id == above {
		return true
	}
	p, ok := w.program(id, a.Comm, 0)
	for range 32 {
		if !ok || p.Parent == above {
			return ok
		}
		p, ok = w.program(p.Parent, "", p.Seen)
	}
	return false
}

// ownComm is the name of cachebro's own processes. Each cachebro command is a separate action, even
// if one program starts several.
const ownComm = "cachebro"

// keyOf returns the job of a version, and the key of the action that the version belongs to.
func (w *describer) keyOf(v store.Version) (string, job) {
	v = w.attributedTo(v)
	a := v.Actor
	switch {
	case v.Plan != "":
		return "plan " + v.Plan, job{}
	case a.ToolCall != "":
		return "call " + a.ToolCall, job{}
	case a.PID == 0:
		return "by " + a.Comm, job{}
	}
	j := w.jobOf(a)
	switch {
	case a.Line != 0:
		return fmt.Sprintf("line %d %s %s", a.Line, a.Session, a.Prompt), j
	case a.Comm == ownComm:
		return fmt.Sprintf("job %d.%d %s %s", a.PID, a.Start, a.Session, a.Prompt), j
	case j.group != 0:
		return fmt.Sprintf("group %d %s %s", j.group, a.Session, a.Prompt), j
	}
	return fmt.Sprintf("job %d.%d %s %s", j.root.PID, j.root.Start, a.Session, a.Prompt), j
}

// beginOf returns when the action of a version began, 0 if that is not known.
func (w *describer) beginOf(v store.Version) int64 {
	v = w.attributedTo(v)
	if v.Plan != "" {
		if p, err := w.s.store.Journal.Head(v.Plan); err == nil {
			return p.Begun
		}
	} else if c := w.call(v.Actor.ToolCall); c != nil {
		return c.Begin
	}
	return 0
}

func (w *describer) program(id attribution.Key, comm string, t int64) (attribution.Process, bool) {
	if id.PID == 0 {
		return attribution.Process{}, false
	}
	all, ok := w.programs[id]
	if !ok {
		all, _ = w.s.book.Programs(id) // on an error, only the pid is shown
		w.programs[id] = all
	}
	for i := len(all) - 1; i >= 0; i-- {
		found := all[i].Comm == comm
		if comm == "" {
			found = all[i].Seen <= t || i == 0
		}
		if found {
			return all[i], true
		}
	}
	return attribution.Process{}, false
}

// jobOf climbs from a process to the topmost one of its group, but not above the
// client of its session, an agent or a terminal.
func (w *describer) jobOf(a store.Actor) job {
	key := jobKey{attribution.Key{PID: a.PID, Start: a.Start}, a.Comm}
	if j, ok := w.jobs[key]; ok {
		return j
	}
	p, ok := w.program(key.id, a.Comm, 0)
	j := job{root: p, ok: ok}
	if !ok {
		j.root = attribution.Process{Key: key.id, Comm: a.Comm, UID: a.UID}
	}
	client := w.clientOf(a.Session)
	for range 32 {
		up, ok := w.program(j.root.Parent, "", j.root.Seen)
		if !ok || up.Group != p.Group {
			j.group = p.Group
			break
		}
		if up.Group == 0 || up.PID == client || isAgent(up) {
			break
		}
		j.root = up
	}
	w.jobs[key] = j
	return j
}

func startsOthers(program string) bool {
	return clients.IsAgent(program, true) || slices.Contains(starters, program)
}

func isAgent(p attribution.Process) bool {
	if startsOthers(p.Comm) {
		return true
	}
	return slices.ContainsFunc(p.Args[:min(len(p.Args), 2)], func(a string) bool {
		return startsOthers(strings.TrimSuffix(path.Base(a), ".js"))
	})
}

func (w *describer) session(id store.SessionID) *store.Session {
	s, ok := w.sessions[id]
	if !ok && id != "" {
		if found, known, err := w.s.store.Sessions.Get(id); err == nil && known {
			s = &found
		}
		w.sessions[id] = s
	}
	return s
}

func (w *describer) clientOf(id store.SessionID) uint32 {
	if s := w.session(id); s != nil {
		return s.PID
	}
	return 0
}

func (w *describer) call(id string) *store.ToolCall {
	c, ok := w.calls[id]
	if !ok && id != "" {
		if found, known, err := w.s.store.Sessions.ToolCall(id); err == nil && known {
			c = &found
		}
		w.calls[id] = c
	}
	return c
}

func (w *describer) prompt(session store.SessionID, id string) (p store.Prompt, ok bool) {
	all, known := w.prompts[session]
	if !known && session != "" {
		all, _ = w.s.store.Sessions.Prompts(session)
		w.prompts[session] = all
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool { return p.ID == id })
	if i < 0 {
		return p, false
	}
	return all[i], true
}

func (w *describer) describe(a *wire.Action, g *group) {
	newest := g.versions[0]
	if last := g.versions[len(g.versions)-1]; last.Seq > newest.Seq {
		newest = last
	}
	newest = w.attributedTo(newest)
	by := newest.Actor
	if g.job.ok {
		root := g.job.root
		by.PID = root.PID
		by.Start = root.Start
		by.Comm = root.Comm
		by.UID = root.UID
	}
	if s := w.session(by.Session); s != nil {
		a.Client = s.Client
	}
	if p, ok := w.prompt(by.Session, by.Prompt); ok {
		a.Asked, a.AskedAt = p.Text, onwire.Time(p.Time)
	}
	if first := w.prompts[by.Session]; len(first) > 0 { // w.prompt has filled this map
		a.Began = cutText(first[0].Text, maxBegan)
	}
	a.Plan = newest.Plan
	if a.Plan != "" {
		if p, err := w.s.store.Journal.Head(a.Plan); err == nil {
			a.Left = leftAlone(p.Conflicts) + leftAlone(p.Lost)
		}
	}
	a.Command = w.commands(g.versions)
	if g.job.ok && by.ToolCall == "" && a.Plan == "" {
		a.Dir = w.inProject(g.job.root.Dir)
	}
	if c := w.call(by.ToolCall); c != nil {
		a.Failed = c.Failed
	}
	if g.job.ok {
		a.By = w.ancestors(g.job.root)
	}
	by.Args = strings.ToValidUTF8(by.Args, "�")
	by.Comm = strings.ToValidUTF8(by.Comm, "�")
	a.Actor = onwire.Actor(by)
}

// leftAlone counts the paths that an undo did not change. Git's own files do not count. An undo of
// files never changes them, and lists them only to name the command that undoes their changes.
func leftAlone(all []store.Conflict) (n int) {
	for _, x := range all {
		if _, _, own := gitdir.Split(string(x.Path)); !own {
			n++
		}
	}
	return n
}

// maxCommands is how many commands of one action are named.
const maxCommands = 4

// commands describes what made the versions of an action. A typed line or a process group may
// hold several commands, which are all named in the order of their first writes.
func (w *describer) commands(vs []store.Version) string {
	type of struct {
		process attribution.Key
		comm    string
		session store.SessionID
	}
	ordered := vs
	if len(vs) > 1 && vs[0].Seq > vs[len(vs)-1].Seq {
		ordered = slices.Clone(vs)
		slices.Reverse(ordered)
	}
	seen, wrote := map[of]bool{}, map[of]bool{}
	var all []string
	for _, v := range ordered {
		by := of{attribution.Key{PID: v.Actor.PID, Start: v.Actor.Start}, v.Actor.Comm, v.Actor.Session}
		if wrote[by] {
			continue
		}
		wrote[by] = true
		v = w.attributedTo(v)
		if v.Actor.ToolCall != "" || v.Plan != "" || v.Actor.PID == 0 {
			return w.command(v, job{}) // one tool call, one plan, or changes that bypassed the mount
		}
		j := w.jobOf(v.Actor)
		id := of{j.root.Key, j.root.Comm, v.Actor.Session}
		if seen[id] {
			continue
		}
		seen[id] = true
		if command := w.command(v, j); !slices.Contains(all, command) {
			all = append(all, command)
		}
	}
	if len(all) > 1 {
		for i, command := range all {
			all[i] = cmdline.Line(command, maxExpanded)
		}
	}
	if n := len(all) - maxCommands; n > 0 {
		all = append(all[:maxCommands], fmt.Sprintf("… and %d more", n))
	}
	return strings.Join(all, "; ")
}

// maxBegan is the length to which a session's first prompt is cut, in bytes.
const maxBegan = 200

// cutText shortens a text to the given number of bytes, or less, without splitting a character.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}

// command describes what made a version.
func (w *describer) command(v store.Version, j job) (text string) {
	v = w.attributedTo(v)
	switch c := w.call(v.Actor.ToolCall); {
	case v.Plan != "":
		text, _, _ = strings.Cut(v.Plan, "-")
		if p, err := w.s.store.Journal.Head(v.Plan); err == nil {
			text = p.Title
			if !strings.HasPrefix(text, p.Kind) {
				text = strings.TrimSpace(p.Kind + " " + text)
			}
		}
	case c != nil && c.Title != "" && isShell(c.Tool):
		text = cmdline.Line(c.Title, maxWords)
	case c != nil:
		text = strings.TrimSpace(c.Tool + " " + c.Title)
	case v.Actor.Tool != "":
		text = v.Actor.Tool
	case v.Actor.PID == 0:
		text = cmp.Or(map[string]string{"outside": "changed unobserved"}[v.Actor.Comm], v.Actor.Comm, "somebody")
	case !j.ok && v.Actor.Args != "":
		text = cmdline.Line(v.Actor.Args, maxWords)
	default:
		text = commandOf(j.root)
	}
	return strings.ToValidUTF8(text, "�")
}

// isShell reports whether a tool runs commands, so that its title is a command.
func isShell(tool string) bool {
	switch strings.ToLower(tool) {
	case "bash", "shell", "run_shell_command", "exec_command", "local_shell", "powershell", "terminal", "execute":
		return true
	}
	return false
}

func commandOf(p attribution.Process) string {
	if len(p.Args) > 0 && cmdline.IsShell(p.Args[0]) {
		return cmdline.Show(p.Args, maxWords)
	}
	if s := cmdline.Show(p.Args, maxExpanded); s != "" {
		return s
	}
	return fmt.Sprintf("%s (pid %d)", p.Comm, p.PID)
}

// inProject returns a working directory relative to the project, "" for the project's root. It
// returns a directory outside the project unchanged.
func (w *describer) inProject(dir string) string {
	for _, root := range []string{w.s.paths.Root, w.s.paths.Mountpoint()} {
		if root == "" {
			continue
		}
		if rel, ok := onwire.Below(dir, root); ok {
			return strings.ToValidUTF8(rel, "�")
		}
	}
	return strings.ToValidUTF8(dir, "�")
}

// ancestors returns the ancestors of a process, up to the agent or the terminal.
func (w *describer) ancestors(p attribution.Process) (all []wire.Ancestor) {
	for len(all) < 8 {
		up, ok := w.program(p.Parent, "", p.Seen)
		if !ok || up.PID <= 1 {
			return all
		}
		all = append(all, wire.Ancestor{PID: up.PID, Comm: strings.ToValidUTF8(up.Comm, "�"), Command: strings.ToValidUTF8(cmdline.Show(up.Args, 80), "�")})
		if isAgent(up) {
			return all
		}
		p = up
	}
	return all
}
