package attrs

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSets(t *testing.T) {
	for _, m := range []map[string]string{{}, {"user.a": ""}, {"user.b": "\x00\xff", "user.a": "x", Capability: "y", "system.posix_acl_access": "z"}} {
		s := Of(m)
		if got, ok := s.All(); !ok || !maps.Equal(got, m) {
			t.Errorf("%q: %v %v", s, got, ok)
		}
		if s.Has(Capability) != (m[Capability] != "") || (s == None) != (len(m) == 0) {
			t.Errorf("%q", s)
		}
		if w := s.Without(func(n string) bool { return n != "user.a" }); w.Has("user.a") != s.Has("user.a") || w.Has(Capability) {
			t.Errorf("%q without the others: %q", s, w)
		}
	}
	for _, bad := range []Set{"", "x", "\x01\x05a", "\x01\x01a", "\x01\x0dtrusted.thing\x00", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"} {
		if _, ok := bad.All(); ok || bad.Has("a") {
			t.Errorf("%q counts", bad)
		}
	}
	if !Set("").Same(None) || None.Same(Of(map[string]string{"user.a": "b"})) {
		t.Error("same")
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s := Read(path); s != None || ReadFD(int(f.Fd())) != None {
		t.Errorf("%q", s)
	}
	if err := unix.Setxattr(path, "user.a", []byte("b"), 0); err != nil {
		t.Skip("no attributes here")
	}
	want := Of(map[string]string{"user.a": "b"})
	if s := Read(path); s != want || ReadFD(int(f.Fd())) != want {
		t.Errorf("%q", s)
	}
	if s := Read(path + "no"); s != "" {
		t.Errorf("of nothing: %q", s)
	}
}
