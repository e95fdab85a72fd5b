package remote

import (
	"math/rand"
	"strings"
	"testing"

	"cachebro/store/remote/remotetest"
	"cachebro/store/storetest"
)

// What lies in the bucket is counted to the byte, whose it is, and what is not ours.
func TestUsage(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(41))
	byID := map[string]*Sender{}
	for range 3 {
		s := storetest.Fresh(t)
		r := added(t, s, p)
		for round := range 30 {
			life(t, s, rnd, round)
			sendAll(t, r)
		}
		byID[r.Head().Machine.ID] = r
	}
	added(t, storetest.Fresh(t), p) // has sent nothing yet
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	check := func(foreign int) Usage {
		t.Helper()
		u, err := b.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		objects, bytes := 0, int64(0)
		for _, k := range srv.Objects() {
			if strings.HasPrefix(k, "app/") {
				objects++
				bytes += int64(len(srv.Object(k)))
			}
		}
		if u.Objects != objects-foreign || foreign == 0 && u.Bytes != bytes || u.Foreign != foreign {
			t.Errorf("%d objects, %d bytes; there are %d, %d: %+v", u.Objects, u.Bytes, objects, bytes, u)
		}
		return u
	}
	u := check(0)
	if len(u.Machines) != 4 {
		t.Fatalf("%d machines", len(u.Machines))
	}
	for _, m := range u.Machines[:3] {
		h := byID[m.Machine.ID].Head()
		if m.Versions != h.Versions || m.Bytes < h.Bytes || m.Contents == 0 || m.Contents >= h.Bytes || m.Last.IsZero() || m.Unknown {
			t.Errorf("%+v\nsent: %+v", m, h)
		}
	}
	if m := u.Machines[3]; m.Bytes != 0 || m.Machine.Name != "box" {
		t.Errorf("%+v", m)
	}
	srv.Set("app/notes.txt", []byte("mine"))
	srv.Set("other/machines", []byte("of another project"))
	srv.Set("apple", []byte("of another project"))
	check(1)
}
