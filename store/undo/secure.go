package undo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
)

// whyNotKept says why a content is not in the store and cannot be brought there;
// "": it can.
func (m *maker) whyNotKept(st state) string {
	switch {
	case st.link():
		return "where it points was not seen"
	case st.size > m.store.Options().MaxBlob:
		return fmt.Sprintf("larger than %d MiB", m.store.Options().MaxBlob>>20)
	case st.noContent == store.NoContentPurged:
		return st.noContent
	}
	return ""
}

// risk is a goal that would destroy a content that the store lacks.
type risk struct {
	goal *goal
	now  store.Version
}

func versionsOf(rs []risk) []store.Version {
	vs := make([]store.Version, len(rs))
	for i := range rs {
		vs[i] = rs[i].now
	}
	return vs
}

// risks finds what is to be secured before goals are reached.
func (m *maker) risks(goals []goal) ([]risk, error) {
	if m.show {
		return nil, nil
	}
	can := func(g goal) bool { return m.unkept(g.have) && m.whyNotKept(g.have) == "" }
	if !slices.ContainsFunc(goals, can) {
		return nil, nil
	}
	o, err := m.outlookOf(goals)
	if err != nil {
		return nil, err
	}
	var out []risk
	for i := range goals {
		g := &goals[i]
		if !can(*g) || !o.destroys(g) {
			continue
		}
		v, found, err := m.view.Current(g.path)
		if err != nil {
			return nil, err
		}
		if found && v.Seq == g.have.seq {
			out = append(out, risk{g, v})
		}
	}
	return out, nil
}

// secured takes note of what has come into the store.
func (m *maker) secured(rs []risk) error {
	for _, r := range rs {
		v, found, err := m.view.Current(r.goal.path)
		if err != nil {
			return err
		}
		if found && v.Seq == r.now.Seq {
			r.goal.have = stateOf(v)
		}
	}
	return nil
}

// unkept: a file with a content that the store lacks, or a link of which it does
// not know where it points.
func (m *maker) unkept(st state) bool {
	return st.link() && st.target == "" || st.regular() && (st.blob == (store.Hash{}) && st.size > 0 || st.blob != (store.Hash{}) && !m.has(st.blob))
}

// outlook is what will be where once goals are reached.
type outlook struct {
	m     *maker
	paths map[store.Path]*goal
	all   []*goal
	homes map[store.Path]store.Path // what goes by a rename, and where
}

func (m *maker) outlookOf(goals []goal) (*outlook, error) {
	o := &outlook{m: m, paths: make(map[store.Path]*goal, len(goals)), all: make([]*goal, len(goals))}
	for i := range goals {
		o.paths[goals[i].path], o.all[i] = &goals[i], &goals[i]
	}
	var err error
	o.homes, err = m.homesOf(goals)
	return o, err
}

// destroys: g.path loses what is now its content, which is not moved elsewhere.
// Another name of the file would keep it, but nothing could make this one a name
// of it again.
func (o *outlook) destroys(g *goal) bool {
	return (g.have.regular() || g.have.link()) && !g.want.sameContent(g.have) && o.homes[g.path] == ""
}

// refusal says why a plan must leave a goal alone that would destroy a content
// for ever; "": it need not.
func (o *outlook) refusal(g *goal) string {
	if !o.m.unkept(g.have) {
		return ""
	}
	why := o.m.whyNotKept(g.have)
	if why == "" && o.m.show || !o.destroys(g) { // it will be there when the plan is carried out
		return ""
	}
	if why == "" {
		why = cmp.Or(o.m.unsafe[g.path], g.have.noContent)
	}
	return "nothing could bring back what it is now" + strings.TrimSuffix(" ("+why+")", " ()") + ": move or delete it yourself"
}
