package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/fusefs/capture/spool"
	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/last"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/waits"
	"cachebro/store/wire"
)

// scanners read files because they read all files; that says nothing of what a
// session works on.
var scanners = map[string]bool{
	"git": true, "rg": true, "grep": true, "ag": true, "ack": true, "find": true, "fd": true, "fdfind": true, "tar": true, "rsync": true,
	"cp": true, "du": true, "ls": true, "wc": true, "tree": true, "updatedb": true, "updatedb.mlocat": true, "tracker-miner-f": true,
	"gopls": true, "ctags": true, "tsserver": true, "rust-analyzer": true, "clangd": true,
}

// manyReads in one record of one process: it is a scanner, whatever its name.
const manyReads = 16

// noteReads counts files that a session's process tree has read. The client's
// own reads are told by its hooks, with what the model saw of them.
func (d *Daemon) noteReads(r *spool.Record) {
	if r.More > 0 || len(r.Paths) > manyReads {
		return
	}
	a := d.attribution.Actor(attribution.WriterOf(r), r.UID, r.Time, "")
	if !d.attribution.KnownClient(attribution.WriterOf(r)) {
		d.pairRead(r, a)
	}
	if a.Session == "" || a.Comm == "" || scanners[a.Comm] || d.attribution.KnownClient(attribution.WriterOf(r)) {
		return
	}
	paths := make([]store.Path, len(r.Paths))
	for i, p := range r.Paths {
		paths[i] = store.Path(p)
	}
	if err := d.store.NoteReads(a.Session, a.Comm, r.Time, paths); err != nil {
		d.log.Warn("reads", "err", err)
	}
}

func (d *Daemon) workingSet(ctx context.Context, q wire.WorkingSetQuery) (wire.WorkingSet, []byte, error) {
	d.ingest.WaitHead(ctx, waits.Fresh)
	session, err := last.SessionWith(d.store, q.Session, func(s store.Session) (bool, error) {
		touches, err := d.touches(s.ID)
		return len(touches) > 0, err
	})
	if err != nil {
		return wire.WorkingSet{}, nil, err
	}
	out := wire.WorkingSet{Session: string(session), Branch: d.source.Branch(ctx), Files: []wire.WorkingFile{}}
	if session == "" {
		out.Files, err = d.everybodysFiles(ctx, q.Since)
	} else {
		out.Files, err = d.sessionFiles(session, q.Since)
	}
	if err != nil {
		return out, nil, err
	}
	slices.SortStableFunc(out.Files, func(a, b wire.WorkingFile) int { return b.Last.Compare(a.Last) })
	if q.Limit > 0 && len(out.Files) > q.Limit {
		out.Files = out.Files[:q.Limit]
	}
	return out, nil, nil
}

func (d *Daemon) sessionFiles(session store.SessionID, since time.Time) ([]wire.WorkingFile, error) {
	touches, err := d.touches(session)
	if err != nil {
		return nil, err
	}
	files := make([]wire.WorkingFile, 0, len(touches))
	for _, t := range touches {
		f := wire.WorkingFile{Path: []byte(t.Path), Edits: t.Edits, Reads: t.Reads, Last: onwire.Time(max(t.LastEdit, t.LastRead)), By: t.EditBy}
		if t.Edits == 0 {
			f.By = t.ReadBy
		} else {
			f.Last = onwire.Time(t.LastEdit)
		}
		if f.Last.Before(since) {
			continue
		}
		v, ok, err := d.store.Current(t.Path)
		if err != nil {
			return nil, err
		}
		if ok && v.Op == store.OpMoved {
			continue // its new name is listed
		}
		if ok {
			f.Deleted = v.Deleted()
			if v.Actor.Session != session && v.Time > max(t.LastEdit, t.LastRead) && v.Op != store.OpBaseline {
				f.Others = attribution.ByWhom(v.Actor)
			}
		}
		files = append(files, f)
	}
	return files, nil
}

// everybodysFiles are the files changed since a time (an hour ago by default),
// by whomever.
func (d *Daemon) everybodysFiles(ctx context.Context, since time.Time) ([]wire.WorkingFile, error) {
	if since.IsZero() {
		since = time.Now().Add(-time.Hour)
	}
	byPath := map[store.Path]*wire.WorkingFile{}
	renamedAway := map[store.Path]bool{}
	var order []store.Path
	before := uint64(0)
	for {
		vs, more, err := d.store.Log(store.Filter{Since: since, Before: before})
		if err != nil {
			return nil, err
		}
		for _, v := range vs {
			// A path that was renamed away is its new name's business; a save
			// through a temporary file would be listed as two.
			if v.Op == store.OpMoved && byPath[v.Path] == nil {
				renamedAway[v.Path] = true
			}
			if v.Class != 0 || v.Op == store.OpMkdir || v.Op == store.OpRmdir || v.Op == store.OpMoved || renamedAway[v.Path] {
				continue
			}
			f := byPath[v.Path]
			if f == nil {
				f = &wire.WorkingFile{Path: []byte(v.Path), Last: v.When(), By: attribution.ByWhom(v.Actor), Deleted: v.Deleted()}
				byPath[v.Path] = f
				order = append(order, v.Path)
			}
			f.Edits++
		}
		if !more || len(vs) == 0 || ctx.Err() != nil {
			break
		}
		before = vs[len(vs)-1].Seq
	}
	files := make([]wire.WorkingFile, len(order))
	for i, p := range order {
		files[i] = *byPath[p]
	}
	return files, ctx.Err()
}

// recovery is what the recovery block, the Stop line and the report are made of.
func (d *Daemon) recovery(ctx context.Context, q wire.SessionQuery) (wire.Recovery, []byte, error) {
	out := wire.Recovery{Branch: d.source.Branch(ctx), Mounted: d.survey.Mounted()}
	session, err := last.Session(d.store, q.Session)
	if err != nil || session == "" {
		return out, nil, err
	}
	s, known, err := d.store.Session(session)
	if err != nil || !known {
		return out, nil, err
	}
	out.Known = true
	if out.Set, _, err = d.workingSet(ctx, wire.WorkingSetQuery{Session: string(session)}); err != nil {
		return out, nil, err
	}
	for _, f := range out.Set.Files {
		if f.Others != "" {
			out.Changed = append(out.Changed, fmt.Sprintf("%s (%s)", onwire.Display(store.Path(f.Path)), f.Others))
		}
	}
	calls, err := d.store.ToolCalls(session, 200)
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
	out.Notes, out.MoreNotes = d.recoveryNotes(string(session), out.Set)
	if out.Modified, err = d.modifiedIn(session, s.Prompt); err != nil {
		return out, nil, err
	}
	out.Metrics, _, err = d.metrics(ctx, wire.MetricsQuery{Session: string(session)})
	return out, nil, err
}

// modifiedIn counts the files that are otherwise than before a prompt: what an
// undo of it would touch. A save through a temporary file is one file, and what
// was made and removed again is none.
func (d *Daemon) modifiedIn(session store.SessionID, prompt string) (int, error) {
	f := store.Filter{Session: session, Prompt: prompt, Limit: 10_000}
	vs, _, err := d.store.Log(f) // newest first
	if err != nil {
		return 0, err
	}
	last, first := map[store.Path]store.Version{}, map[store.Path]uint64{}
	for _, v := range vs {
		if v.Class != 0 || v.Op == store.OpMkdir || v.Op == store.OpRmdir {
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
		was, ok, err := d.store.AtSeq(path, first[path]-1)
		if err != nil {
			return 0, err
		}
		switch there := ok && !was.Deleted(); {
		case !there && now.Deleted():
		case there && !now.Deleted() && was.Blob == now.Blob && was.Blob != (store.Hash{}) && was.Stat.Mode == now.Stat.Mode && was.Target == now.Target:
		default:
			n++
		}
	}
	return n, nil
}
