package history

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// This file lists the directories of the tree as of a moment, for the read-only file system that
// shows past trees.

// Past answers requests about the past tree.
type Past struct {
	Store  *store.Store
	Ingest *ingest.Ingester
	Paths  onwire.Paths
}

// Handlers returns the handlers of the service's requests, by method.
func (s *Past) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MMoment: onwire.Decoded(s.moment), wire.MPast: onwire.Decoded(s.list), wire.MPastRead: onwire.Decoded(s.read),
	}
}

func (s *Past) moment(ctx context.Context, q wire.MomentQuery) (m wire.Moment, _ []byte, err error) {
	// Before looking the moment up, wait until the log contains every earlier change.
	if _, err := s.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill); err != nil {
		return m, nil, err
	}
	switch {
	case q.Seq > 0:
		m.Seq, err = versions.Moment(s.Store, q.Seq)
	case q.Session != "":
		m.Seq, err = versions.SessionStart(s.Store, q.Session)
	case q.Prompt != "":
		m.Seq, err = s.prompt(q.Prompt)
	default:
		m.Seq, err = s.Store.SeqAt(q.At)
	}
	if err == nil && m.Seq > 0 {
		var v store.Version
		v, err = s.Store.Version(m.Seq)
		if err == nil {
			m.At = onwire.Time(v.Time)
		}
	}
	return m, nil, err
}

// prompt returns the moment at which a prompt was given.
func (s *Past) prompt(id string) (uint64, error) {
	if id != "last" {
		var err error
		id, err = versions.Prompt(s.Store, "at", "", "", id)
		if err != nil {
			return 0, err
		}
	}
	all, err := s.Store.Sessions.LastPrompts("", 0)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool { return id == "last" || p.ID == id })
	if i < 0 {
		return 0, wire.Errorf(wire.ErrNotFound, "cachebro log shows the prompts", "no prompt %s is known", id)
	}
	return s.Store.SeqAt(onwire.Time(all[i].Time))
}

func (s *Past) list(_ context.Context, q wire.PastQuery) (wire.PastAnswer, []byte, error) {
	p, err := s.Paths.Clean(q.Path)
	if err != nil {
		return wire.PastAnswer{}, nil, err
	}
	if q.Versions {
		out, err := s.versions(p)
		return out, nil, err
	}
	all, found, err := undo.Planner{Store: s.Store}.List(p, q.Seq)
	if err == nil && !found {
		err = wire.Errorf(wire.ErrNotFound, "", "%s was not a directory at that time", onwire.Display(p))
	}
	out := wire.PastAnswer{Entries: make([]wire.PastEntry, 0, len(all))}
	for _, e := range all {
		w := wire.PastEntry{
			Name: []byte(path.Base(string(e.Path))), Mode: e.Mode, Size: e.Size, Mtime: e.Mtime, UID: e.UID, GID: e.GID,
			Target: []byte(e.Target), Hash: onwire.Hash(e.Blob), Why: e.Why, Seq: e.Seq,
		}
		out.Entries = append(out.Entries, w)
	}
	return out, nil, err
}

// versions lists what the view of all versions shows in the directory p. Each name that ever existed
// in p is listed as a directory. If p is or was a file, each of its versions is listed as a file
// whose name begins with its time.
func (s *Past) versions(p store.Path) (out wire.PastAnswer, err error) {
	err = s.Store.View(func(v *store.View) error {
		seen := map[string]bool{}
		if err := v.Children(p, func(c store.Path) bool {
			if name := path.Base(string(c)); !store.OwnFile(c) && !seen[name] {
				seen[name] = true
				out.Entries = append(out.Entries, wire.PastEntry{Name: []byte(name), Mode: unix.S_IFDIR | 0o555})
			}
			return true
		}); err != nil || p == "" {
			return err
		}
		own, err := v.History(p, true)
		if err != nil {
			return err
		}
		var before store.Hash
		for _, o := range own {
			m := o.Stat.Mode
			if m&unix.S_IFMT == 0 {
				m |= unix.S_IFREG
			}
			if o.Deleted() || m&unix.S_IFMT != unix.S_IFREG || o.Blob != (store.Hash{}) && o.Blob == before {
				continue
			}
			before = o.Blob
			e := wire.PastEntry{
				Name: []byte(fmt.Sprintf("%s_%d%s", o.When().UTC().Format("2006-01-02T15:04:05.000Z"), o.Seq, path.Ext(string(p)))),
				Mode: m, Size: o.Stat.Size, Mtime: o.Stat.Mtime, UID: o.Stat.UID, GID: o.Stat.GID, Hash: onwire.Hash(o.Blob), Seq: o.Seq,
			}
			if e.Hash == "" && e.Size > 0 {
				e.Why = o.NoContent
				e.Why = cmp.Or(e.Why, "none of its content is stored")
			}
			out.Entries = append(out.Entries, e)
		}
		return nil
	})
	if err == nil && p != "" && len(out.Entries) == 0 {
		err = wire.Errorf(wire.ErrNotFound, "cachebro log", "nothing is known of %s", onwire.Display(p))
	}
	return out, err
}

func (s *Past) read(_ context.Context, q wire.PastRead) (wire.Empty, []byte, error) {
	var h store.Hash
	if n, err := hex.Decode(h[:], []byte(q.Hash)); err != nil || n != len(h) || len(q.Hash) != 2*len(h) {
		return wire.Empty{}, nil, wire.Errorf(wire.ErrBadRequest, "", "the request has no valid hash")
	}
	b, err := s.Store.Content(h)
	return wire.Empty{}, b, err
}
