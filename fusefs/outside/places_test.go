package outside

import "testing"

func TestTemporary(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"TMPDIR": "/home/ann/tmp"}[name] }
	for _, c := range []struct {
		home, path string
		want       bool
	}{
		{"/home/ann", "/tmp/x", true},
		{"/home/ann", "/tmp", false},
		{"/home/ann", "/home/ann/tmp/x", true}, // $TMPDIR
		{"/home/ann", "/home/ann/x", false},
		{"/tmp/ann", "/tmp/ann/x", false}, // a home in such a directory
		{"/tmp/ann", "/tmp/annex", true},
	} {
		if got := NewPlaces(c.home, getenv).Temporary(c.path); got != c.want {
			t.Errorf("home %s: %s is temporary: %v", c.home, c.path, got)
		}
	}
}
