package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// openNotes opens the notes. A note that cannot be read is only logged.
func (kn *Knowledge) openNotes() error {
	book, err := OpenNotes(kn.Store.KV("notes"))
	if book == nil {
		return fmt.Errorf("open the notes: %w", err)
	}
	if err != nil {
		kn.Log.Warn("notes", "err", err)
	}
	kn.notes = book
	return nil
}

func (kn *Knowledge) notesRequest(ctx context.Context, r *wire.Request, q wire.NotesRequest) (any, []byte, error) {
	p, err := kn.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	a := wire.NotesAnswer{Notes: []wire.Note{}}
	switch q.Do {
	case "add":
		n := Note{Text: q.Text, Kind: q.Kind, Path: p, Time: time.Now().UnixNano(), Session: store.SessionID(q.Reader.Session), Agent: q.Reader.Agent, By: r.Hello.Client}
		if reader, ok := kn.Attribution.ReaderOf(q.Reader.ToolUse); ok {
			n.Session, n.Agent = reader.Session, reader.Agent
		}
		n, a.Added, err = kn.notes.Add(n)
		if err != nil {
			return nil, nil, noteError(err)
		}
		// Sync at once, because nobody will repeat the note if it is lost.
		if err := kn.Store.Sync(); err != nil {
			return nil, nil, err
		}
		a.Notes, a.Total = []wire.Note{kn.noteOut(n)}, 1
	case "list":
		kn.Ingest.WaitHead(ctx, ingest.QueryWait) // for the present paths of the notes' files
		list := kn.NotesAbout(q.Kind, p)
		a.Total = len(list)
		if q.Limit > 0 {
			list = list[:min(q.Limit, len(list))]
		}
		a.Notes = append(a.Notes, list...)
	case "remove":
		gone, err := kn.notes.Remove(q.IDs...)
		if err != nil {
			return nil, nil, noteError(err)
		}
		if err := kn.Store.Sync(); err != nil {
			return nil, nil, err
		}
		a.Total = len(gone)
		for _, n := range gone {
			a.Notes = append(a.Notes, kn.noteOut(n))
		}
	default:
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "add, list or remove", "%q is not an operation on notes", q.Do)
	}
	return a, nil, nil
}

func noteError(err error) error {
	switch {
	case errors.Is(err, ErrInvalid):
		return wire.Errorf(wire.ErrBadRequest, "cachebro help note", "%v", err)
	case errors.Is(err, ErrFull):
		return wire.Errorf(wire.ErrTooLarge, "cachebro docs note remove ID", "%v", err)
	case errors.Is(err, ErrNotFound):
		return wire.Errorf(wire.ErrNotFound, "cachebro docs note list", "%v", err)
	}
	return err
}

// NotesAbout lists the notes of a kind ("": any) about a path, newest first. A note matches by the
// present or an earlier name of its file.
func (kn *Knowledge) NotesAbout(kind string, p store.Path) (out []wire.Note) {
	kind = strings.ToLower(kind)
	for _, n := range kn.notes.All() {
		if kind != "" && n.Kind != kind {
			continue
		}
		w := kn.noteOut(n)
		if p == "" || onwire.Under(string(w.Path), p) || onwire.Under(string(w.Was), p) {
			out = append(out, w)
		}
	}
	return out
}

func (kn *Knowledge) noteOut(n Note) wire.Note {
	w := wire.Note{ID: n.ID, Text: n.Text, Kind: n.Kind, Path: []byte(n.Path), Time: onwire.Time(n.Time), Session: string(n.Session), Agent: n.Agent, By: n.By}
	if n.Path == "" {
		return w
	}
	now, gone := kn.currentPath(n.Path)
	w.Gone = gone
	if now != n.Path {
		w.Path, w.Was = []byte(now), []byte(n.Path)
	}
	return w
}

// maxMoves bounds how many renames are followed, because renames may form a circle.
const maxMoves = 64

// currentPath follows a path through renames to the file's present path. A path that is not in the log
// counts as present.
func (kn *Knowledge) currentPath(p store.Path) (now store.Path, gone bool) {
	at := p
	for range maxMoves {
		v, ok, err := kn.Store.Current(at)
		switch {
		case err != nil || !ok:
			return at, false
		case v.Op == store.OpMoved && v.To != "":
			at = v.To
		case v.Deleted():
			return p, true
		default:
			return at, false
		}
	}
	return p, true
}

const maxRecoveryNotes = 10

// RecoveryNotes lists the notes that a session should see again. The order is: the session's own
// notes, notes about the files that it works on, notes about the whole project. Each group begins
// with the newest. more is the number of notes left out.
func (kn *Knowledge) RecoveryNotes(session string, set wire.WorkingSet) (out []wire.Note, more int) {
	working := map[string]bool{}
	for _, f := range set.Files {
		working[string(f.Path)] = true
	}
	class := func(n wire.Note) int {
		switch {
		case n.Session == session:
			return 0
		case working[string(n.Path)]:
			return 1
		case len(n.Path) == 0:
			return 2
		}
		return 3
	}
	all := kn.notes.All()
	for _, n := range all {
		if w := kn.noteOut(n); class(w) < 3 {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(x, y wire.Note) int { return cmp.Compare(class(x), class(y)) })
	out = out[:min(len(out), maxRecoveryNotes)]
	return out, len(all) - len(out)
}

// Note returns the note with an id.
func (kn *Knowledge) Note(id string) (wire.Note, bool) {
	n, ok := kn.notes.Get(id)
	if !ok {
		return wire.Note{}, false
	}
	return kn.noteOut(n), true
}
