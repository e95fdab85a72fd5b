package reads

import (
	"fmt"
	"strings"

	"cachebro/cmd/cachebro/daemon/bundle"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// actorOfPairs identifies the actor that reads and writes. The actor is the session with all its
// processes or, without a session, the process.
func actorOfPairs(a store.Actor) string {
	switch {
	case a.Session != "":
		return "s:" + string(a.Session)
	case a.PID != 0 && !scanners[a.Comm]:
		return fmt.Sprintf("p:%d:%d", a.PID, a.Start)
	}
	return ""
}

// pairRead records reads by a process. The client's own reads are reported by its hooks.
func (ws *WorkingSets) pairRead(r *spool.Record, a store.Actor) {
	who := actorOfPairs(a)
	if who == "" || a.Comm == "" || scanners[a.Comm] {
		return
	}
	for _, p := range r.Paths {
		ws.pairs.Read(who, r.Time, p)
	}
}

// NoteWrites records which files were written, and stores the resulting pairs.
func (ws *WorkingSets) NoteWrites(vs []store.Version) {
	var dirs store.DirMoves
	for _, v := range vs {
		along := dirs.Along(&v)
		if v.Class != event.Tracked || v.Op == store.OpBaseline || v.Op == store.OpOutside || v.Op == store.OpSeen {
			continue
		}
		switch v.Op {
		case store.OpRename:
			if along {
				continue // nobody wrote it
			}
			if v.Stat.IsDir() {
				ws.pairs.RenamedBelow(string(v.From), string(v.Path))
				continue
			}
			ws.pairs.Renamed(string(v.From), string(v.Path))
		case store.OpCreate, store.OpWrite, store.OpTruncate:
		default:
			continue
		}
		if who := actorOfPairs(v.Actor); who != "" && v.Plan == "" {
			ws.pairs.Wrote(who, v.Time, string(v.Path))
		}
	}
	ws.keepPairs()
}

func (ws *WorkingSets) keepPairs() {
	rows := map[string][]byte{}
	for p, row := range ws.pairs.Changed() {
		rows[bundle.PairPrefix+p] = row
	}
	if len(rows) == 0 {
		return
	}
	if err := ws.rows.SetAll(rows); err != nil {
		ws.log.Warn("the pairs of files read and written are not stored", "err", err)
	}
}

func (ws *WorkingSets) openPairs() {
	ws.rows = ws.store.KV("graph")
	rows := map[string][]byte{}
	err := ws.rows.Scan(bundle.PairPrefix, func(key string, val []byte) error {
		rows[strings.TrimPrefix(key, bundle.PairPrefix)] = append([]byte{}, val...)
		return nil
	})
	if err != nil {
		ws.log.Warn("the stored pairs of files read and written are lost", "err", err)
	}
	ws.pairs = bundle.NewPairs(rows)
}

// Pairs returns the pairs of files in which one was read before the other was written.
func (ws *WorkingSets) Pairs() *bundle.Pairs { return ws.pairs }
