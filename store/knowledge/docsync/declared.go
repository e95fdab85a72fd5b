package docsync

import (
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/knowledge/manifest"
)

// declared is the content of cachebro.yml's last readable version.
type declared struct {
	Docs    map[store.Path][]string `cbor:"1,keyasint,omitempty"`
	Nodes   map[string][]string     `cbor:"2,keyasint,omitempty"` // the paths and patterns of each named group
	Problem string                  `cbor:"3,keyasint,omitempty"` // why the newest version is not readable, or which entries were left out, one on a line
}

// maxProblems is how many entries that were left out are named.
const maxProblems = 5

// declare reads a version of cachebro.yml. If it cannot be parsed, for example in the middle of an
// edit, the earlier content stays in effect.
func (s *Sync) declare(v store.Version) {
	text, err := s.content(v)
	var m *manifest.Manifest
	if err == nil {
		m, err = manifest.Parse(text)
	}
	s.changed["manifest"] = &s.declared
	if err != nil {
		s.declared.Problem = err.Error()
		return
	}
	if len(text) > maxBytes/4 {
		s.declared.Problem = fmt.Sprintf("%s has more than %d bytes", manifest.Name, maxBytes/4)
		return
	}
	var problems []string
	for _, p := range m.Problems[:min(len(m.Problems), maxProblems)] {
		problems = append(problems, p.String())
	}
	s.declared = declared{Docs: map[store.Path][]string{}, Nodes: map[string][]string{}, Problem: strings.Join(problems, "\n")}
	for _, n := range m.Nodes {
		s.declared.Nodes[n.Name] = n.Source
		if len(n.Source) == 0 {
			s.declared.Nodes[n.Name] = []string{n.Name}
		}
	}
	for _, p := range m.Docs {
		for _, code := range p.Code {
			specs := []string{code}
			if n, ok := m.Node(code); ok && len(n.Source) > 0 {
				specs = n.Source
			}
			for _, spec := range specs {
				if list := s.declared.Docs[store.Path(p.Doc)]; spec != p.Doc && !slices.Contains(list, spec) && len(list) < maxRefs {
					s.declared.Docs[store.Path(p.Doc)] = append(list, spec)
				}
			}
		}
	}
}
