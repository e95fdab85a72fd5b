package undo

import (
	"cachebro/store"
)

// risk is a node whose content a plan would destroy and that the store lacks.
type risk struct {
	node *node
	now  store.Version
}

func versionsOf(rs []risk) []store.Version {
	vs := make([]store.Version, len(rs))
	for i := range rs {
		vs[i] = rs[i].now
	}
	return vs
}

// risks returns the nodes to secure before the plan is carried out.
func (m *maker) risks(a *aims) ([]risk, error) {
	if m.show {
		return nil, nil
	}
	var out []risk
	for _, n := range a.threatened(a.outcome()) {
		st := *n.content.now().st
		if n.content.now().unknown || !m.contents.missing(st) || m.contents.whyNotStored(st) != "" {
			continue
		}
		p, there := a.h.path(&n.content)
		v, found, err := m.view.Current(p)
		if err != nil {
			return nil, err
		}
		if there && found && !v.Deleted() {
			out = append(out, risk{n, v})
		}
	}
	return out, nil
}

// secured updates the nodes whose content was stored.
func (m *maker) secured(rs []risk) error {
	for _, r := range rs {
		v, found, err := m.view.Current(r.now.Path)
		if err != nil {
			return err
		}
		if found && v.Seq == r.now.Seq && v.Blob != (store.Hash{}) {
			r.node.secured(v)
		}
	}
	return nil
}

// secured sets the present content of a node.
func (n *node) secured(v store.Version) {
	st := n.content.base.st
	if last := len(n.content.facts) - 1; last >= 0 {
		st = n.content.facts[last].st
	}
	st.blob, st.noContent = v.Blob, v.NoContent
	st.size, st.mtime = v.Stat.Size, v.Stat.Mtime
}
