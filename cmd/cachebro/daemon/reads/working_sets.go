package reads

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/bundle"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// WorkingSets holds the working sets of all sessions. The methods may be called concurrently.
type WorkingSets struct {
	store       *store.Store
	source      *source.Source
	ingest      *ingest.Ingester
	attribution *attribution.Attribution
	log         *slog.Logger

	waiting waitingReads
	news    chan struct{} // capacity 1, never closed: reads are waiting
	pairs   *bundle.Pairs
	rows    store.KV // the stored pairs
}

// OpenWorkingSets opens the working sets. It never fails. If the stored pairs cannot be read, some
// hints are missing. Run must be called.
func OpenWorkingSets(st *store.Store, src *source.Source, in *ingest.Ingester, at *attribution.Attribution, log *slog.Logger) *WorkingSets {
	ws := &WorkingSets{store: st, source: src, ingest: in, attribution: at, log: log, news: make(chan struct{}, 1)}
	ws.openPairs()
	return ws
}

// Handlers returns the handlers of the requests about working sets, by method.
func (ws *WorkingSets) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MWorkingSet: onwire.Decoded(ws.Answer)}
}

// scanners are programs that read all files. Their reads do not show what a session works on.
var scanners = map[string]bool{
	"git": true, "rg": true, "grep": true, "ag": true, "ack": true, "find": true, "fd": true, "fdfind": true, "tar": true, "rsync": true,
	"cp": true, "du": true, "ls": true, "wc": true, "tree": true, "updatedb": true, "updatedb.mlocat": true, "tracker-miner-f": true,
	"gopls": true, "ctags": true, "tsserver": true, "rust-analyzer": true, "clangd": true,
}

// manyReads is the number of reads in one record above which a process counts as a scanner,
// whatever its name is.
const manyReads = 16

// NoteReads counts files that a session's processes have read. The client's own reads are
// reported by its hooks, which know what the model saw.
func (ws *WorkingSets) NoteReads(r *spool.Record) {
	if r.More > 0 || len(r.Paths) > manyReads {
		return
	}
	a := ws.attribution.Actor(attribution.WriterOf(r), r.UID, r.Time, "")
	if !ws.attribution.KnownClient(attribution.WriterOf(r)) {
		ws.pairRead(r, a)
	}
	if a.Session == "" || a.Comm == "" || scanners[a.Comm] || ws.attribution.KnownClient(attribution.WriterOf(r)) {
		return
	}
	paths := make([]store.Path, len(r.Paths))
	for i, p := range r.Paths {
		paths[i] = store.Path(p)
	}
	if err := ws.store.Sessions.NoteReads(a.Session, a.Comm, r.Time, paths); err != nil {
		ws.log.Warn("reads", "err", err)
	}
}

// Answer lists the files of a session, or of everybody if no session is known.
func (ws *WorkingSets) Answer(ctx context.Context, q wire.WorkingSetQuery) (wire.WorkingSet, []byte, error) {
	ws.ingest.WaitHead(ctx, ingest.FreshWait)
	session, err := versions.SessionWith(ws.store, q.Session, func(s store.Session) (bool, error) {
		touches, err := ws.Of(s.ID)
		return len(touches) > 0, err
	})
	if err != nil {
		return wire.WorkingSet{}, nil, err
	}
	out := wire.WorkingSet{Session: string(session), Branch: ws.source.Branch(ctx), Files: []wire.WorkingFile{}}
	if session == "" {
		out.Files, err = ws.everybodysFiles(ctx, q.Since)
	} else {
		out.Files, err = ws.sessionFiles(session, q.Since)
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

func (ws *WorkingSets) sessionFiles(session store.SessionID, since time.Time) ([]wire.WorkingFile, error) {
	touches, err := ws.Of(session)
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
		v, ok, err := ws.store.Current(t.Path)
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

// everybodysFiles returns the files that anybody has changed since a time, by default an hour ago.
func (ws *WorkingSets) everybodysFiles(ctx context.Context, since time.Time) ([]wire.WorkingFile, error) {
	if since.IsZero() {
		since = time.Now().Add(-time.Hour)
	}
	byPath := map[store.Path]*wire.WorkingFile{}
	renamedAway := map[store.Path]bool{}
	var order []store.Path
	before := uint64(0)
	for {
		vs, more, err := ws.store.Log(store.Filter{Since: since, Before: before})
		if err != nil {
			return nil, err
		}
		for _, v := range vs {
			// A path that was renamed away is listed under its new name only. Otherwise a save
			// through a temporary file would be listed as two files.
			if v.Op == store.OpMoved && byPath[v.Path] == nil {
				renamedAway[v.Path] = true
			}
			madeOrRemovedDir := v.Op == store.OpMkdir || v.Op == store.OpRmdir
			leftName := v.Op == store.OpMoved || renamedAway[v.Path]
			if v.Class != event.Tracked || madeOrRemovedDir || leftName {
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
