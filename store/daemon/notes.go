package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/waits"
	"cachebro/store/knowledge/notes"
	"cachebro/store/wire"
)

// openNotes never fails the daemon: what cannot be read is said in its log.
func (d *Daemon) openNotes() error {
	book, err := notes.Open(d.store.KV("notes"))
	if book == nil {
		return fmt.Errorf("open the notes: %w", err)
	}
	if err != nil {
		d.log.Warn("notes", "err", err)
	}
	d.notes = book
	return nil
}

func (d *Daemon) notesRequest(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.NotesRequest
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	p, err := d.paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	a := wire.NotesAnswer{Notes: []wire.Note{}}
	switch q.Do {
	case "add":
		n := notes.Note{Text: q.Text, Kind: q.Kind, Path: p, Time: time.Now().UnixNano(), Session: store.SessionID(q.Reader.Session), Agent: q.Reader.Agent, By: r.Hello.Client}
		if reader, ok := d.attribution.ReaderOf(q.Reader.ToolUse); ok {
			n.Session, n.Agent = reader.Session, reader.Agent
		}
		if n, a.Added, err = d.notes.Add(n); err != nil {
			return nil, nil, noteError(err)
		}
		// Nobody will say it again: it must not wait for the next sync.
		if err := d.store.Sync(); err != nil {
			return nil, nil, err
		}
		a.Notes, a.Total = []wire.Note{d.noteOut(n)}, 1
	case "list":
		d.ingest.WaitHead(ctx, waits.Query) // where their files are now
		list := d.notesAbout(q.Kind, p)
		a.Total = len(list)
		if q.Limit > 0 {
			list = list[:min(q.Limit, len(list))]
		}
		a.Notes = append(a.Notes, list...)
	case "remove":
		gone, err := d.notes.Remove(q.IDs...)
		if err != nil {
			return nil, nil, noteError(err)
		}
		if err := d.store.Sync(); err != nil {
			return nil, nil, err
		}
		a.Total = len(gone)
		for _, n := range gone {
			a.Notes = append(a.Notes, d.noteOut(n))
		}
	default:
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "add, list or remove", "there is no %q for notes", q.Do)
	}
	return a, nil, nil
}

func noteError(err error) error {
	switch {
	case errors.Is(err, notes.ErrInvalid):
		return wire.Errorf(wire.ErrBadRequest, "cachebro help note", "%v", err)
	case errors.Is(err, notes.ErrFull):
		return wire.Errorf(wire.ErrTooLarge, "cachebro note remove ID", "%v", err)
	case errors.Is(err, notes.ErrNotFound):
		return wire.Errorf(wire.ErrNotFound, "cachebro note list", "%v", err)
	}
	return err
}

// notesAbout are the notes of a kind ("" any) about a path, by its name now or
// then, newest first.
func (d *Daemon) notesAbout(kind string, p store.Path) (out []wire.Note) {
	for _, n := range d.notes.All(notes.Filter{Kind: strings.ToLower(kind)}) {
		w := d.noteOut(n)
		if p == "" || onwire.Under(string(w.Path), p) || onwire.Under(string(w.Was), p) {
			out = append(out, w)
		}
	}
	return out
}

func (d *Daemon) noteOut(n notes.Note) wire.Note {
	w := wire.Note{ID: n.ID, Text: n.Text, Kind: n.Kind, Path: []byte(n.Path), Time: onwire.Time(n.Time), Session: string(n.Session), Agent: n.Agent, By: n.By}
	if n.Path == "" {
		return w
	}
	now, gone := d.placeNow(n.Path)
	if w.Gone = gone; now != n.Path {
		w.Path, w.Was = []byte(now), []byte(n.Path)
	}
	return w
}

// maxMoves is how many renames are followed: there may be a circle of them.
const maxMoves = 64

// placeNow follows a path through renames to where the file is now. A path that
// nothing is known of counts as there.
func (d *Daemon) placeNow(p store.Path) (now store.Path, gone bool) {
	at := p
	for range maxMoves {
		v, ok, err := d.store.Current(at)
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
