package sessions

import (
	"context"
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// recovery returns what a session is told after a compaction. The Stop hook, the status line and the
// tool summarize_session show parts of it.
func (ss *Sessions) recovery(ctx context.Context, q wire.SessionQuery) (wire.Recovery, []byte, error) {
	out := wire.Recovery{Branch: ss.Source.Branch(ctx), Mounted: ss.Survey.Mounted()}
	session, err := versions.Session(ss.Store, q.Session)
	if err != nil || session == "" {
		return out, nil, err
	}
	s, known, err := ss.Store.Sessions.Get(session)
	if err != nil || !known {
		return out, nil, err
	}
	out.Known = true
	out.Set, _, err = ss.Sets.Answer(ctx, wire.WorkingSetQuery{Session: string(session)})
	if err != nil {
		return out, nil, err
	}
	for _, f := range out.Set.Files {
		if f.Others != "" {
			out.Changed = append(out.Changed, fmt.Sprintf("%s (%s)", visible.ForModel(string(f.Path)), f.Others))
		}
	}
	calls, err := ss.Store.Sessions.ToolCalls(session, 200)
	if err != nil {
		return out, nil, err
	}
	for _, c := range calls { // newest first
		if c.Tool == "Bash" && c.End != 0 {
			if c.Failed {
				out.Failed = strings.TrimSpace(c.Title)
			}
			break
		}
	}
	out.Notes, out.MoreNotes = ss.Knowledge.RecoveryNotes(string(session), out.Set)
	out.Prompt = s.Prompt
	out.Modified, err = ss.modifiedIn(session, s.Prompt)
	if err != nil {
		return out, nil, err
	}
	out.Metrics, _, err = ss.Reads.Metrics(ctx, wire.MetricsQuery{Session: string(session)})
	return out, nil, err
}

// modifiedIn counts the files that differ from their state before a prompt. An undo of the prompt
// would change these files. A save through a temporary file counts as one file. A file that was
// made and removed again does not count.
func (ss *Sessions) modifiedIn(session store.SessionID, prompt string) (int, error) {
	f := store.Filter{Session: session, Prompt: prompt, Limit: 10_000}
	vs, _, err := ss.Store.Log(f) // newest first
	if err != nil {
		return 0, err
	}
	last, first := map[store.Path]store.Version{}, map[store.Path]uint64{}
	for _, v := range vs {
		if v.Class != event.Tracked || v.Op == store.OpMkdir || v.Op == store.OpRmdir {
			continue
		}
		if _, ok := last[v.Path]; !ok {
			last[v.Path] = v
		}
		first[v.Path] = v.Seq
	}
	n := 0
	for path, now := range last {
		if now.Op == store.OpMoved {
			continue // its new name is counted
		}
		was, ok, err := ss.Store.AtSeq(path, first[path]-1)
		if err != nil {
			return 0, err
		}
		existed := ok && !was.Deleted()
		same := was.Blob == now.Blob && was.Blob != (store.Hash{}) && was.Stat.Mode == now.Stat.Mode && was.Target == now.Target
		if existed == now.Deleted() || existed && !same {
			n++
		}
	}
	return n, nil
}
