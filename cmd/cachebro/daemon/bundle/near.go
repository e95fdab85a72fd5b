package bundle

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"cachebro/store/leaf/text"
)

// importedLocked returns the file or directory that an import in a file refers to now.
func (g *Graph) importedLocked(e *entry, spec string) string {
	for _, at := range importTargets(e.path, spec, g.mods) {
		if target, ok := g.existingLocked(at); ok {
			return target
		}
	}
	return ""
}

// nearLocked returns up to three nodes whose names resemble a reference.
func (g *Graph) nearLocked(ref string) []string {
	low := strings.ToLower(strings.Trim(ref, "/"))
	base := path.Base(low)
	score := map[string]int{}
	look := func(name string) {
		n := strings.ToLower(strings.TrimSuffix(name, "/"))
		b := path.Base(n)
		s := 0
		switch {
		case n == low || b == base:
			s = 100
		case strings.HasPrefix(b, base) || strings.HasPrefix(base, b) && len(b) > 2:
			s = 60
		case strings.Contains(n, base) && len(base) > 2:
			s = 40
		case len(base) < 40 && text.Distance(b, base) <= 1+len(base)/4:
			s = 30
		}
		if s > 0 {
			score[name] = s - len(n)/20
		}
	}
	for _, n := range g.man.Nodes {
		look(n.Name)
	}
	for p := range g.files {
		look(p)
	}
	for d := range g.dirs {
		if d != "" {
			look(d)
		}
	}
	names := slices.SortedFunc(maps.Keys(score), func(a, b string) int { return cmp.Or(score[b]-score[a], strings.Compare(a, b)) })
	return names[:min(3, len(names))]
}
