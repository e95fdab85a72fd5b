package remote

import (
	"math/rand"
	"net/http"
	"strings"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
)

// The bucket's objects are counted to the byte, by machine, and foreign ones are listed.
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

// fsck names every object that is not as it was sent, and no other.
func TestFsck(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(42))
	recipient, file := key(t)
	s := storetest.Fresh(t)
	r := sender(t, s)
	if err := r.Add(t.Context(), p, "box", []string{recipient}); err != nil {
		t.Fatal(err)
	}
	for round := range listAfter + 4 {
		life(t, s, rnd, round)
		sendAll(t, r)
	}
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, whole bool, problems, locked int) Checked {
		t.Helper()
		got, err := b.Fsck(t.Context(), whole)
		if err != nil {
			t.Fatal(what, err)
		}
		if (len(got.Problems) > 0) != (problems > 0) || got.Machines > 1 || got.Locked != locked && problems == 0 {
			t.Errorf("%s: %+v", what, got)
		}
		return got
	}
	check("without a key", true, 0, 1)
	if err := b.Unlock(file); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		if got := check("as it is", whole, 0, 0); got.Segments != int(r.Head().N) || got.Unnamed != 0 {
			t.Errorf("%+v", got)
		}
	}
	keys := srv.Objects()
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	seen := map[string]int{}
	for _, k := range keys {
		kind := strings.Split(k, "/")[1]
		if seen[kind]++; seen[kind] > 3 {
			continue
		}
		was := srv.Object(k)
		if kind != "machines" && kind != "heads" { // if one of these is missing, nothing shows that it ever existed
			srv.Set(k, nil)
			check("without "+k, false, 1, 0)
		}
		srv.Set(k, was[:len(was)-1])
		check("short "+k, false, 1, 0)
		flipped := append([]byte(nil), was...)
		flipped[rnd.Intn(len(flipped))] ^= 1
		srv.Set(k, flipped)
		check("a bit of "+k, true, 1, 0)
		srv.Set(k, was)
	}
	srv.Set("app/"+logKey(r.Head().Machine.ID, strings.Repeat("0", 64)), []byte("left behind"))
	if got := check("with something more", true, 0, 0); got.Unnamed != 1 {
		t.Errorf("%+v", got)
	}
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Error503 })
	if got, err := b.Fsck(t.Context(), true); err == nil {
		t.Errorf("of what could not be read: %+v", got)
	}
}
