package remote

import (
	"bytes"
	"errors"
	"math/rand"
	"net/http"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// copied is a machine's copy of another machine's history.
type copied struct {
	s     *store.Store
	known Known
}

func (c *copied) follow(t testing.TB, p Place, machine string) error {
	t.Helper()
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Head(t.Context(), machine)
	if err == nil {
		c.known, err = b.Follow(t.Context(), h, c.known, c.s, here)
	}
	if all := (Known{h.N, h.Log}); err == nil && c.known != all {
		t.Errorf("%+v is not all: %+v", c.known, all)
	}
	return err
}

// A copy that is updated from time to time over a bad link equals the history, and has each version
// once. This also holds for a history that was resumed from another one.
func TestFollow(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(11))
	s := storetest.Fresh(t)
	r := added(t, s, p)
	c := copied{s: storetest.Fresh(t)}
	failed := 0
	for round := range 30 {
		life(t, s, rnd, round)
		sendAll(t, r)
		if rnd.Intn(3) > 0 {
			continue
		}
		srv.Break(func(*http.Request) remotetest.Fault {
			if rnd.Intn(4) == 0 {
				return remotetest.Fault(rnd.Intn(int(remotetest.Faults)))
			}
			return remotetest.None
		})
		if err := c.follow(t, p, r.Head().Machine.ID); err != nil {
			failed++
		}
		srv.Break(nil)
	}
	if err := c.follow(t, p, r.Head().Machine.ID); err != nil || failed == 0 {
		t.Fatalf("%v, after %d failures", err, failed)
	}
	sameHistory(t, s, c.s)
	before := srv.Asked()
	if err := c.follow(t, p, r.Head().Machine.ID); err != nil || srv.Asked() != before+1 {
		t.Errorf("nothing new: %v, %d requests", err, srv.Asked()-before)
	}

	next := readable(t, p, r)
	if err := SetOrigin(next, p, r.Head()); err != nil {
		t.Fatal(err)
	}
	nr := added(t, next, p)
	life(t, next, rnd, 40)
	sendAll(t, nr)
	c = copied{s: storetest.Fresh(t)}
	for round := range 2 {
		if err := c.follow(t, p, nr.Head().Machine.ID); err != nil {
			t.Fatal(err)
		}
		sameHistory(t, next, c.s)
		life(t, next, rnd, 50+round)
		sendAll(t, nr)
	}
}

// Whatever a bucket contains, a copy gets only what was sent, and loses nothing that it has read.
func TestFollowAHostileBucket(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(12))
	s := storetest.Fresh(t)
	r := added(t, s, p)
	for round := range 2 {
		life(t, s, rnd, round)
		sendAll(t, r)
	}
	id := r.Head().Machine.ID
	c := copied{s: storetest.Fresh(t)}
	if err := c.follow(t, p, id); err != nil {
		t.Fatal(err)
	}
	early := map[string][]byte{}
	for _, k := range srv.Objects() {
		early[k] = srv.Object(k)
	}
	for round := range 3 {
		life(t, s, rnd, 2+round)
		sendAll(t, r)
	}
	keys := srv.Objects()
	had := c.s.Seq()
	damaged := 0
	for i, k := range keys {
		was := srv.Object(k)
		flipped := bytes.Clone(was)
		flipped[rnd.Intn(len(flipped))] ^= 1
		for _, b := range [][]byte{flipped, was[:len(was)/2], nil, srv.Object(keys[(i+1)%len(keys)])} {
			srv.Set(k, b)
			if err := c.follow(t, p, id); err == nil { // the changed object was not requested
				c.known = Known{2, r.Head().Segments[1].Log}
			} else if damaged++; !errors.Is(err, ErrForged) && !errors.Is(err, ErrMissing) && !errors.Is(err, ErrLost) && !errors.Is(err, store.ErrNewer) {
				t.Errorf("%s: %v", k, err)
			}
			srv.Set(k, was)
		}
	}
	if damaged < 4 || c.s.Seq() < had {
		t.Errorf("%d refusals, %d versions", damaged, c.s.Seq())
	}
	if err := c.follow(t, p, id); err != nil {
		t.Fatal(err)
	}
	sameHistory(t, s, c.s)
	for k, b := range early {
		srv.Set(k, b)
	}
	if err := c.follow(t, p, id); !errors.Is(err, ErrLost) {
		t.Errorf("a bucket that went back: %v", err)
	}
	sameHistory(t, s, c.s)
}
