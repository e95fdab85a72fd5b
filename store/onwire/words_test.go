package onwire

import "testing"

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		p, dir, rel string
		ok          bool
	}{
		{"a/b", "a", "b", true},
		{"a", "a", "", true},
		{"ab", "a", "", false},
		{"/etc", "/", "etc", true},
		{"/", "/", "", true},
		{"", "/", "", false}, // the directory of a process that had ended
	} {
		if rel, ok := Below(c.p, c.dir); ok != c.ok || ok && rel != c.rel {
			t.Errorf("Below(%q, %q) = %q, %v", c.p, c.dir, rel, ok)
		}
	}
}
