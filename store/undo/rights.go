package undo

import (
	"cachebro/store"
	"cachebro/store/leaf/attrs"
)

// inAndOut are the permissions that an ordinary user needs to open a directory and change its
// entries.
const inAndOut = 0o700

func closed(mode uint32) bool { return mode&inAndOut != inAndOut }

// withoutNewRights removes set-id bits and capabilities from a file that gets a merge or the content of
// another path.
func (m *maker) withoutNewRights(g *goal) {
	if g.want.regular() && (g.want.mode&setID != 0 || g.want.attrs.Has(attrs.Capability)) {
		g.want.mode &^= setID
		g.want.attrs = g.want.attrs.Without(func(name string) bool { return name == attrs.Capability })
		m.lose(store.Conflict{Path: g.path, Why: "the content is new here, so it does not get set-id bits or capabilities"})
	}
}
