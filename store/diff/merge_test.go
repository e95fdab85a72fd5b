package diff

import "testing"

func TestMerge(t *testing.T) {
	for _, tc := range []struct{ base, a, b, want string }{
		{"1\n2\n3\n4\n5\n", "1\nA\n3\n4\n5\n", "1\n2\n3\nB\n5\n", "1\nA\n3\nB\n5\n"},
		{"1\n2\n3\n", "1\n2\n3\n", "1\nB\n3\n", "1\nB\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nX\n3\n", "1\nX\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nY\n3\n", ""},
		{"1\n2\n3\n4\n", "1\n3\n4\n", "1\n2\n3\n4\n5", "1\n3\n4\n5"},
		{"1\n2\n", "1\n2\na\n", "1\n2\nb\n", ""},
		{"", "a\n", "a\n", "a\n"},
	} {
		got, ok := Merge([]byte(tc.base), []byte(tc.a), []byte(tc.b))
		if ok != (tc.want != "") || string(got) != tc.want {
			t.Errorf("merge %q: %q and %q: %q %v, want %q", tc.base, tc.a, tc.b, got, ok, tc.want)
		}
	}
}
