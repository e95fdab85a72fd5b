package bundle

import "testing"

// A path of cachebro.yml with the characters of a glob, such as a route's directory, is also a path.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"app/[id]", "app/[id]/p.ts", true}, {"app/[id]/p.ts", "app/[id]/p.ts", true}, {"app/[id]/p.ts", "app/i/p.ts", true},
		{"app/[id]", "app/[id]2", false}, {"app", "app/x", true}, {"app/", "app/x", true}, {"ap", "app/x", false}, {".", "x", true},
		{"src/*", "src/a", true}, {"src/*", "src/d/a", false}, {"src/*/", "src/d/a", true}, {"{a,b}/x", "b/x", true},
	} {
		if got := covers([]string{c.pattern}, c.path); got != c.want {
			t.Errorf("%q covers %q: %v", c.pattern, c.path, got)
		}
	}
}
