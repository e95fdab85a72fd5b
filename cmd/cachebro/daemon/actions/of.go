package actions

import (
	"cmp"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
	"cachebro/store/wire"
)

// ActionOf finds the action to which the log assigns a version. has reports whether a version
// belongs to the action. span is the range from the action's first to its last version. command
// describes what made the given version.
func (s *Service) ActionOf(v *store.View, of store.Version) (has func(store.Version) bool, span wire.ActionSpan, command string, err error) {
	w := s.newDescriber()
	all := []store.Version{of}
	key, _ := w.keyOf(of)
	span = wire.ActionSpan{Key: key, First: of.Seq, Last: of.Seq}
	for _, oldest := range []bool{true, false} {
		g := &group{key: key, versions: []store.Version{of}, begin: w.beginOf(of)}
		f, others := store.Filter{Oldest: oldest}, 0
		if oldest {
			f.After = of.Seq
		} else {
			f.Before = of.Seq
		}
		err = v.Each(f, func(o store.Version) bool {
			if k, _ := w.keyOf(o); k != key || o.Excluded() || store.OwnFile(o.Path) {
				others++
				return others < maxBeyond && !g.isOver(o.Time, oldest)
			}
			others = 0
			if g.isOver(o.Time, oldest) {
				return false
			}
			g.versions[0] = o
			span.First, span.Last = min(span.First, o.Seq), max(span.Last, o.Seq)
			if len(all) < wholePage {
				all = append(all, o)
			}
			return true
		})
		if err != nil {
			return nil, span, "", err
		}
	}
	slices.SortFunc(all, func(a, b store.Version) int { return cmp.Compare(a.Seq, b.Seq) })
	return func(o store.Version) bool {
		if o.Seq < span.First || o.Seq > span.Last {
			return false
		}
		k, _ := w.keyOf(o)
		return k == key
	}, span, w.commands(all), nil
}

// Namer finds the action that a version belongs to, and the command or process that made the
// version. The version need not be stored: it may represent a change of git's own files. A Namer
// serves one query.
type Namer struct{ w *describer }

// NewNamer returns a Namer.
func (s *Service) NewNamer() Namer { return Namer{s.newDescriber()} }

// Key returns the key of a version's action, as wire.Action has it.
func (n Namer) Key(v store.Version) string {
	key, _ := n.w.keyOf(v)
	return key
}

// TopAncestor searches the process that made a version and its ancestors. It stops below a
// session's client, an agent or init. It returns the topmost process whose name matches. If none
// does, it returns the process that made the version. name is the command that started the returned
// process, or "" if it is not known. seen is when the returned process was first seen, 0 if its
// name does not match.
func (n Namer) TopAncestor(v store.Version, matches func(comm string) bool) (id attribution.Key, name string, seen int64) {
	id = attribution.Key{PID: v.Actor.PID, Start: v.Actor.Start}
	p, ok := n.w.program(id, v.Actor.Comm, 0)
	if !ok {
		return id, "", 0
	}
	top, client := p, n.w.clientOf(v.Actor.Session)
	for range 32 {
		up, ok := n.w.program(p.Parent, "", p.Seen)
		if !ok || up.PID <= 1 || up.PID == client || isAgent(up) {
			break
		}
		p = up
		if matches(up.Comm) {
			top = up
		}
	}
	if matches(top.Comm) {
		seen = top.Seen
	}
	return top.Key, strings.ToValidUTF8(commandOf(top), "�"), seen
}

// Command describes what made a version.
func (n Namer) Command(v store.Version) string {
	_, j := n.w.keyOf(v)
	return n.w.command(v, j)
}
