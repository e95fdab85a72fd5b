package attribution

import (
	"slices"
	"strings"
	"time"

	"cachebro/hooks/clients"
	"cachebro/store"
	"cachebro/store/leaf/procfs"
)

// WritesItself reports whether the process that is recorded for a tool's call writes the files
// itself. This is so for the editing tools of the client, and for tools of cachebro's MCP server.
func WritesItself(tool string) bool {
	switch tool {
	case "Edit", "Write", "NotebookEdit", "MultiEdit":
		return true
	}
	// The tools of cachebro's MCP server, such as mcp__cachebro__edit_file.
	own := []string{"edit_file", "write_file", "revert_file", "restore", "undo", "redo", "update_node"}
	return slices.ContainsFunc(own, func(name string) bool { return strings.HasSuffix(tool, name) })
}

// writesNothing reports whether a tool is one of cachebro's own that does not write. No write is
// attributed to a call of such a tool, because no hook reports when the call ends.
func writesNothing(tool string) bool {
	ours := strings.HasPrefix(tool, "mcp__cachebro__") || strings.HasPrefix(tool, clients.PluginTools)
	return ours && !WritesItself(tool)
}

// windowLocked finds the tool call that a write belongs to. at is the index of the client in chain,
// or -1 if the client is unknown.
func (a *Attribution) windowLocked(chain []Key, at int, id store.SessionID, t int64, path string) (w *window, certain bool) {
	var own, shell []*window
	branch := Key{}
	if at > 0 {
		branch = chain[at-1]
		if w := a.branches[branch]; w != nil {
			return w, true
		}
	}
	for i := len(a.windows) - 1; i >= 0; i-- {
		w := a.windows[i]
		otherSession := w.Call.Session != "" && id != "" && w.Call.Session != string(id)
		if writesNothing(w.Call.Tool) || w.Begin > t+windowSlack || otherSession {
			continue
		}
		if w.End != 0 && w.End+windowSlack < t && !(w.Call.Background && at > 0) {
			if t-w.Begin > int64(24*time.Hour) {
				break
			}
			continue
		}
		switch i := slices.Index(chain, w.Owner); {
		case WritesItself(w.Call.Tool):
			if i == 0 {
				own = append(own, w)
			}
		case i > 0, i < 0 && at < 0 && id != "": // the second case: only the environment named the session
			shell = append(shell, w)
		}
	}
	if len(own) > 0 {
		return pickOwn(own, path)
	}
	if len(shell) == 0 {
		return nil, false
	}
	return a.pickShellLocked(shell, chain, at, branch, t)
}

// birthLocked finds the tool call during which a process of the chain began. It looks at the oldest
// process whose environment names a session. This is the only way to recognise a command that was
// detached from its client (setsid … &).
func (a *Attribution) birthLocked(chain []Key, t int64) (w *window, certain bool) {
	for i := len(chain) - 1; i >= 0; i-- {
		p := a.procs[chain[i]]
		if p == nil || p.session == "" {
			continue
		}
		var during []*window
		for _, w := range a.windows {
			ofIt := w.Call.Session == p.session || w.Call.Session == p.client
			byShell := !WritesItself(w.Call.Tool) && !writesNothing(w.Call.Tool)
			if ofIt && byShell && w.Begin <= t+windowSlack && a.beganLocked(chain[i], w) {
				during = append(during, w)
			}
		}
		if len(during) > 1 {
			if matching := a.byCommandLocked(during, chain, -1); len(matching) == 1 {
				during = matching
			}
		}
		if len(during) == 0 {
			return nil, false
		}
		return during[len(during)-1], len(during) == 1
	}
	return nil, false
}

// beganLocked reports whether a process began during a tool call. The end of a call is reported
// late, and a start time is at most a tick early, so a process that began after the call never
// matches.
func (a *Attribution) beganLocked(key Key, w *window) bool {
	if a.boot == 0 {
		return false
	}
	started := a.boot + int64(key.Start)*int64(procfs.Tick)
	return started >= w.Begin-windowSlack && (w.End == 0 || started <= w.End)
}

// pickOwn distinguishes parallel edits by the path that they name. Editors write to
// "name.tmp.1234" first, so a prefix counts too.
func pickOwn(ws []*window, path string) (*window, bool) {
	var match []*window
	for _, w := range ws {
		for _, p := range w.Call.Paths {
			name := string(p)
			if name == path || path != "" && (strings.HasPrefix(path, name) || strings.HasSuffix(name, "/"+path)) {
				match = append(match, w)
				break
			}
		}
	}
	if len(match) == 1 {
		return match[0], true
	}
	if len(match) > 1 {
		return match[0], false
	}
	return ws[0], len(ws) == 1
}

// pickShellLocked distinguishes parallel commands by the process tree: the client's direct
// child (branch) belongs to the command during which it started.
func (a *Attribution) pickShellLocked(ws []*window, chain []Key, at int, branch Key, t int64) (*window, bool) {
	fits := ws
	bound := false // the branch was started for one command, so it is not a shell that runs several
	if at > 0 && a.boot != 0 {
		var in, open []*window
		for _, w := range ws {
			if a.beganLocked(branch, w) {
				in = append(in, w)
			}
			if w.End == 0 || t <= w.End {
				open = append(open, w)
			}
		}
		switch {
		case len(in) > 0:
			fits, bound = in, true
		case len(open) > 0:
			fits = open
		default: // the branch began outside all calls, which only the inaccuracy of the clocks can explain
			fits = slices.DeleteFunc(ws, func(w *window) bool { return t > w.End+windowSlack })
			if len(fits) == 0 {
				return nil, false
			}
			return fits[0], false
		}
	}
	if len(fits) > 1 {
		if matching := a.byCommandLocked(fits, chain, at); len(matching) == 1 {
			fits = matching
		}
	}
	if len(fits) == 1 {
		if bound {
			a.branches[branch] = fits[0]
		}
		return fits[0], true
	}
	return fits[0], false
}

// byCommandLocked returns the windows whose command appears in the process tree.
func (a *Attribution) byCommandLocked(ws []*window, chain []Key, at int) []*window {
	if at < 0 {
		at = len(chain)
	}
	var out []*window
	for _, w := range ws {
		command := flat(w.Call.Command)
		if command == "" {
			continue
		}
		for _, key := range chain[:at] {
			p := a.procs[key]
			if p == nil || p.args == "" {
				continue
			}
			args := flat(p.args)
			if strings.Contains(args, command) || len(args) > 8 && strings.Contains(command, args) {
				out = append(out, w)
				break
			}
		}
	}
	return out
}

// flat makes a command comparable with an argument list, by removing quotes and repeated
// spaces.
func flat(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(s)), " ")
}

// beginPlan begins the period in which the writes of a process belong to a plan. endPlan ends it.
func (a *Attribution) beginPlan(id string, owner Key, t int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans = append(a.plans, &planWindow{ID: id, Owner: owner, Begin: t})
	if len(a.plans) > 100 {
		a.plans = slices.Clone(a.plans[50:])
	}
}

func (a *Attribution) endPlan(id string, t int64) (w planWindow, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.plans { // a resumed plan has several windows
		if p.ID == id && p.End == 0 {
			p.End = t
			w, ok = *p, true
		}
	}
	return w, ok
}

// CarrierOf returns the process that carries a plan out, the last one if several did.
func (a *Attribution) CarrierOf(id string) (Key, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.plans) - 1; i >= 0; i-- {
		if p := a.plans[i]; p.ID == id {
			return p.Owner, true
		}
	}
	return Key{}, false
}

// CarriesOutPlan reports whether a living process carries out a plan.
func (a *Attribution) CarriesOutPlan() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.plans, func(p *planWindow) bool { return p.End == 0 && Alive(int(p.Owner.PID), p.Owner.Start) })
}

// PlanOf returns the plan that a process was carrying out at t, or "" if there was none. Because the
// times are inexact, it takes the plan that was nearest to t and at most windowSlack away.
func (a *Attribution) PlanOf(key Key, t int64) (id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nearest := windowSlack + 1
	for _, p := range slices.Backward(a.plans) {
		away := max(0, p.Begin-t)
		if p.End != 0 {
			away = max(away, t-p.End)
		}
		if p.Owner == key && away < nearest {
			id, nearest = p.ID, away
		}
	}
	return id
}
