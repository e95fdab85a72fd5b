package sessions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

const (
	maxNames = 200
	// namesSessions is how many sessions are searched for prompts and tool calls if no session is
	// given.
	namesSessions = 10
)

// names returns the completions of a word that a person types in a shell.
func (ss *Sessions) names(ctx context.Context, q wire.NamesQuery) (wire.NamesAnswer, []byte, error) {
	var a wire.NamesAnswer
	prefix := string(q.Prefix)
	add := func(name, note string) {
		known := slices.ContainsFunc(a.Names, func(n wire.Name) bool { return string(n.Name) == name })
		if name != "" && !known && strings.HasPrefix(name, prefix) && len(a.Names) < maxNames {
			a.Names = append(a.Names, wire.Name{Name: []byte(name), Note: note})
		}
	}
	if q.Kind == "path" {
		dir, err := ss.Paths.Clean(q.Dir)
		if err != nil {
			return a, nil, err
		}
		ss.Ingest.WaitHead(ctx, ingest.FreshWait)
		names, err := ss.Store.Names(dir, prefix)
		if err != nil {
			return a, nil, err
		}
		for _, n := range names[:min(len(names), maxNames)] {
			a.Names = append(a.Names, wire.Name{Name: []byte(n.Path), Dir: n.Dir, Gone: n.Deleted})
		}
		return a, nil, nil
	}
	sessions, err := ss.Store.Sessions.List(namesSessions)
	if q.Session != "" && q.Kind != "session" {
		var id store.SessionID
		id, err = versions.Session(ss.Store, q.Session)
		if err == nil {
			sessions = []store.Session{{ID: id}}
		}
	}
	if err != nil {
		return a, nil, err
	}
	now := time.Unix(0, time.Now().UnixNano())
	for _, s := range sessions {
		switch q.Kind {
		case "session":
			add(string(s.ID), fmt.Sprintf("%s, %s", s.Client, ago(now, s.Started)))
		case "prompt":
			prompts, err := ss.Store.Sessions.Prompts(s.ID)
			if err != nil {
				return a, nil, err
			}
			for _, p := range slices.Backward(prompts) {
				add(p.ID, fmt.Sprintf("%s: %s", ago(now, p.Time), strings.Join(strings.Fields(p.Text), " ")))
			}
		case "tool-call", "agent":
			calls, err := ss.Store.Sessions.ToolCalls(s.ID, maxNames)
			if err != nil {
				return a, nil, err
			}
			for _, c := range calls {
				if q.Kind == "agent" {
					add(c.Agent, ago(now, c.Begin))
				} else {
					add(c.ID, fmt.Sprintf("%s, %s %s", ago(now, c.Begin), c.Tool, c.Title))
				}
			}
		default:
			return a, nil, wire.Errorf(wire.ErrBadRequest, "session, prompt, tool-call, agent or path", "%q is not a kind of name", q.Kind)
		}
	}
	return a, nil, nil
}

func ago(now time.Time, ns int64) string {
	switch t := now.Sub(time.Unix(0, ns)); {
	case ns == 0:
		return "at an unknown time"
	case t < time.Minute:
		return "just now"
	case t < time.Hour:
		return fmt.Sprintf("%d min ago", int(t.Minutes()))
	case t < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(t.Hours()))
	default:
		return text.Count(int(t.Hours()/24), "day") + " ago"
	}
}
