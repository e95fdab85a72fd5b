package fleet

import (
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/remote"
)

// plain returns a text in a form that PostgreSQL accepts.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// otherPath returns the second path of a version, or the target of a link.
func otherPath(v store.Version) string {
	switch {
	case v.Target != "":
		return v.Target
	case v.To != "":
		return string(v.To)
	}
	return string(v.From)
}

// class returns the name of a class, or nil for tracked, the most frequent class.
func class(c store.Class) *string {
	if c == event.Tracked {
		return nil
	}
	s := c.String()
	return &s
}

// action is a tool call, a plan (such as an undo), or the work of a process.
type action struct {
	id, kind, session, agent, prompt, tool, title string
	first, last                                   int64
	failed                                        bool
}

// actionOf returns the action that a version belongs to, or "".
func actionOf(v store.Version) (kind, id string) {
	a := v.Actor
	switch {
	case v.Op == store.OpBaseline:
		return "", ""
	case v.Plan != "":
		return "plan", "plan:" + v.Plan
	case a.ToolCall != "":
		return "call", "call:" + a.ToolCall
	case a.PID != 0:
		return "process", fmt.Sprintf("process:%d.%d", a.PID, a.Start)
	}
	return "", ""
}

// actions returns the actions in a segment, sorted by id.
func actions(l remote.Log) []action {
	all := map[string]*action{}
	get := func(kind, id string) *action {
		id = plain(id)
		if all[id] == nil {
			all[id] = &action{id: id, kind: kind}
		}
		return all[id]
	}
	for _, v := range l.Versions {
		kind, id := actionOf(v)
		if id == "" {
			continue
		}
		a, by := get(kind, id), v.Actor
		a.session = plain(string(by.Session))
		a.agent = plain(by.Agent)
		a.prompt = plain(by.Prompt)
		a.tool = plain(by.Tool)
		if kind == "process" && a.title == "" {
			a.title = plain(strings.TrimSpace(by.Comm + " " + by.Args))
		}
		if a.first == 0 || v.Time < a.first {
			a.first = v.Time
		}
		a.last = max(a.last, v.Time)
	}
	for _, t := range l.ToolCalls {
		if t.ID == "" {
			continue
		}
		a := get("call", "call:"+t.ID)
		a.session = plain(string(t.Session))
		a.agent = plain(t.Agent)
		a.prompt = plain(t.Prompt)
		a.tool = plain(t.Tool)
		a.title = plain(t.Title)
		if t.Begin != 0 && (a.first == 0 || t.Begin < a.first) {
			a.first = t.Begin
		}
		a.last = max(a.last, t.End)
		a.failed = t.Failed
	}
	out := make([]action, 0, len(all))
	for _, a := range all {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b action) int { return strings.Compare(a.id, b.id) })
	return out
}
