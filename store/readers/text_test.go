package readers_test

import (
	"strings"
	"testing"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store/wire"
)

// Models and people read the texts of labels, so this test fixes their wording.
func TestLabels(t *testing.T) {
	p := newProject(t, nil)
	r := p.Reader(t).(*direct)
	read := func(q conformance.Read) string {
		t.Helper()
		a := r.Read(t, q)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		return a.Text
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	const f = "src/a.go"
	text := conformance.Text(245)
	p.Write(t, f, text)
	read(conformance.Read{Path: f})
	want(read(conformance.Read{Path: f}), "[unchanged · 245 lines · ~3.6k saved]")
	want(read(conformance.Read{Path: f, Offset: 50, Limit: 11}), "[unchanged · lines 50-60 of 245 · ~137 saved]")
	p.Write(t, f, conformance.WithLine(text, 100, "one\ntwo"))
	want(read(conformance.Read{Path: f, Offset: 50, Limit: 11}), "[unchanged · lines 50-60 of 246 · changed elsewhere · ~132 saved]")
	want(read(conformance.Read{Path: f}), `[changed · +2 -1 since your read · 245 -> 246 lines]
@@ -97,7 +97,8 @@
 97: the quick brown fox jumps over lazy dog number 679
 98: the quick brown fox jumps over lazy dog number 686
 99: the quick brown fox jumps over lazy dog number 693
-100: the quick brown fox jumps over lazy dog number 700
+one
+two
 101: the quick brown fox jumps over lazy dog number 707
 102: the quick brown fox jumps over lazy dog number 714
 103: the quick brown fox jumps over lazy dog number 721
`)
	p.Rename(t, f, "src/b\x1b[31m.go")
	const g = "src/b\x1b[31m.go"
	want(read(conformance.Read{Path: g, Offset: 1, Limit: 50}), "[unchanged · \"src/b\\033[31m.go\", read as src/a.go · lines 1-50 of 246 · ~673 saved]")
	p.Write(t, g, conformance.WithLine(string(p.files[g]), 3, "x"))
	if got := read(conformance.Read{Path: g}); !strings.HasPrefix(got, "[changed · +1 -1 since your read of src/a.go, now \"src/b\\033[31m.go\" · 246 -> 246 lines]\n@@ -1,6 +1,6 @@\n") {
		t.Errorf("%q", got[:120])
	}
}

func TestListings(t *testing.T) {
	p := newProject(t, nil)
	r := p.Reader(t).(*direct)
	list := func(items string) string {
		t.Helper()
		p.Write(t, "src", items)
		q, err := r.request(conformance.Read{Path: "src"})
		if err != nil {
			t.Fatal(err)
		}
		q.Listing = true
		return r.do(t, q).Text
	}
	items := ""
	for _, l := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		items += "src/some/directory/" + l + ".go\n"
	}
	if got := list(items); got != items {
		t.Fatalf("%q", got)
	}
	if got := list(items); !strings.HasPrefix(got, "[unchanged · 26 items · ~") {
		t.Errorf("%q", got)
	}
	got := list(strings.Replace(items, "src/some/directory/c.go\n", "src/some/directory/cc.go\nsrc/new.go\n", 1))
	if want := "[changed · +2 -1 since your read · 26 -> 27 items]\n-src/some/directory/c.go\n+src/some/directory/cc.go\n+src/new.go\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// A read of the same name is not answered from the listing.
	if a := r.Read(t, conformance.Read{Path: "src"}); !a.Full() {
		t.Errorf("%q", a.Text)
	}
}

func TestEncodings(t *testing.T) {
	utf16 := func(s string) string {
		b := []byte{0xff, 0xfe}
		for _, r := range s {
			b = append(b, byte(r), byte(r>>8))
		}
		return string(b)
	}
	text := conformance.Text(60)
	p := newProject(t, nil)
	r := p.Reader(t)
	p.Write(t, "wide.txt", utf16(text))
	if a := r.Read(t, conformance.Read{Path: "wide.txt"}); a.Text != text {
		t.Errorf("UTF-16 reads as %.60q", a.Text)
	}
	if a := r.Read(t, conformance.Read{Path: "wide.txt"}); !a.Unchanged() {
		t.Errorf("%.60q", a.Text)
	}
	p.Write(t, "wide.txt", utf16(conformance.WithLine(text, 5, "x")))
	if a := r.Read(t, conformance.Read{Path: "wide.txt"}); !a.Changed() {
		t.Errorf("%.60q", a.Text)
	}
	// If the same text comes from other bytes, there is neither a diff nor a stub.
	p.Write(t, "wide.txt", conformance.WithLine(text, 5, "x"))
	if a := r.Read(t, conformance.Read{Path: "wide.txt"}); !a.Full() {
		t.Errorf("%.60q", a.Text)
	}
	// Invalid bytes look alike once they are replaced.
	p.Write(t, "latin", strings.Repeat("stra\xdfe und so weiter\n", 60))
	r.Read(t, conformance.Read{Path: "latin"})
	p.Write(t, "latin", strings.Repeat("stra\xdfe und so weiter\n", 59)+"stra\xe4e und so weiter\n")
	if a := r.Read(t, conformance.Read{Path: "latin"}); !a.Full() {
		t.Errorf("%.60q", a.Text)
	}
	p.Write(t, "bin", "\x7fELF\x00\x01"+text)
	q, err := r.(*direct).request(conformance.Read{Path: "bin"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a, err := p.shown.Decide(t.Context(), q)
		if err != nil || !a.Binary || a.Text != "" || a.Kind != wire.ReadFull {
			t.Errorf("binary: %+v, %v", a, err)
		}
	}
}
