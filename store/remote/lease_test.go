package remote

import (
	"errors"
	"math/rand"
	"net/http"
	"strings"
	"testing"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// resumed continues a machine's history on another machine.
func resumed(t testing.TB, p Place, r *Sender) (*store.Store, *Sender) {
	t.Helper()
	s := readable(t, p, r)
	if err := SetOrigin(s, p, r.Head()); err != nil {
		t.Fatal(err)
	}
	return s, sender(t, s)
}

// puts counts the uploads of segments' contents.
func puts(srv *remotetest.Server, fault func(r *http.Request) remotetest.Fault) *int {
	n := new(int)
	srv.Break(func(r *http.Request) remotetest.Fault {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/contents/") {
			*n++
		}
		return fault(r)
	})
	return n
}

// An id is held for a while, then given to the first machine that claims it. The previous holder
// is refused and informed, and continues under another id with nothing lost and nothing sent
// twice.
func TestTakenOver(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(21))
	s := storetest.Fresh(t)
	life(t, s, rnd, 0)
	r := added(t, s, p)
	sendAll(t, r)
	id := r.Head().Machine.ID

	early, re := resumed(t, p, r)
	if err := re.Add(t.Context(), p, "early", nil); err != nil {
		t.Fatal(err)
	}
	if re.Head().Machine.ID == id || !strings.Contains(re.Note(), "holds its id") {
		t.Errorf("before the lease has run out: %s, %q", re.Head().Machine.ID, re.Note())
	}
	life(t, early, rnd, 1)
	sendAll(t, re)
	sameHistory(t, early, readable(t, p, re))

	heir, rh := resumed(t, p, r)
	rival, rr := resumed(t, p, r)
	srv.Pass(Lease)
	srv.Break(func(q *http.Request) remotetest.Fault { // the answer to the claim itself is lost again and again
		if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/heads/") {
			return remotetest.CutAfter
		}
		return remotetest.None
	})
	_ = rh.Add(t.Context(), p, "heir", nil)
	srv.Break(nil)
	rh = sender(t, heir)
	if err := rh.Add(t.Context(), p, "heir", nil); err != nil {
		t.Fatal(err)
	}
	if rh.Head().Machine.ID != id || !strings.Contains(rh.Note(), "can no longer send under it") {
		t.Errorf("after the lease: %s, %q", rh.Head().Machine.ID, rh.Note())
	}
	if err := rr.Add(t.Context(), p, "rival", nil); err != nil {
		t.Fatal(err)
	}
	if rr.Head().Machine.ID == id || !strings.Contains(rr.Note(), "heir") {
		t.Errorf("the second: %s, %q", rr.Head().Machine.ID, rr.Note())
	}
	life(t, rival, rnd, 1)
	sendAll(t, rr)

	// The previous holder was offline and does not know of the claim. Whether or not it learns of
	// the claim, its head is refused.
	for i, old := range []*Sender{r, sender(t, s)} {
		life(t, s, rnd, 2)
		if more, err := old.Send(t.Context()); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "heir") || more {
			t.Errorf("the old one, %d: %v", i, err)
		}
		if old.Unsent() == 0 {
			t.Error("the old one takes for sent what was refused")
		}
		r = old
	}
	life(t, heir, rnd, 2)
	sendAll(t, rh)
	before := r.Head()
	if err := r.Add(t.Context(), p, "back", nil); err != nil {
		t.Fatal(err)
	}
	life(t, s, rnd, 3)
	sendAll(t, r)
	if h := r.Head(); h.Machine.ID == id || h.Base == nil || h.Base.N != before.N {
		t.Errorf("the old one goes on as %+v", h)
	}
	sameHistory(t, s, readable(t, p, r))
	sameHistory(t, heir, readable(t, p, rh))
	sameHistory(t, rival, readable(t, p, rr))
}

// If two machines claim an id at the same moment, the server accepts one.
func TestClaimedAtOnce(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	s := storetest.Fresh(t)
	life(t, s, rand.New(rand.NewSource(22)), 0)
	r := added(t, s, p)
	sendAll(t, r)
	_, a := resumed(t, p, r)
	_, b := resumed(t, p, r)
	srv.Pass(Lease)
	within := false
	srv.Break(func(q *http.Request) remotetest.Fault {
		if !within && q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/heads/") {
			within = true
			if err := b.Add(t.Context(), p, "b", nil); err != nil {
				t.Error(err)
			}
		}
		return remotetest.None
	})
	if err := a.Add(t.Context(), p, "a", nil); err != nil {
		t.Fatal(err)
	}
	id := r.Head().Machine.ID
	if !within || b.Head().Machine.ID != id || a.Head().Machine.ID == id || !strings.Contains(a.Note(), "b took it over first") {
		t.Errorf("a: %q, b: %q", a.Note(), b.Note())
	}
}

// No head is written to a server without ETags or dates, because it could overwrite another one.
func TestNoHeadWithoutACondition(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(23))
	s := storetest.Fresh(t)
	r := added(t, s, p)
	life(t, s, rnd, 0)
	sendAll(t, r)
	next, rn := resumed(t, p, r)
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Bare })
	life(t, s, rnd, 1)
	was := srv.Object("app/" + headKey(r.Head().Machine.ID))
	if _, err := sender(t, s).Send(t.Context()); !errors.Is(err, errNoETag) {
		t.Errorf("without an ETag: %v", err)
	}
	srv.Pass(Lease)
	if err := rn.Add(t.Context(), p, "next", nil); err != nil && !errors.Is(err, errNoETag) {
		t.Error(err)
	}
	if string(srv.Object("app/"+headKey(r.Head().Machine.ID))) != string(was) {
		t.Error("the head was written")
	}
	srv.Break(nil)
	sendAll(t, r)
	sameHistory(t, s, readable(t, p, r))
	_ = next
}

// If an answer was lost, the same bytes are not sent again.
func TestNotSentTwice(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(24))
	s := storetest.Fresh(t)
	r := added(t, s, p)
	life(t, s, rnd, 0)
	sendAll(t, r)
	for _, anew := range []bool{false, true} {
		life(t, s, rnd, 1)
		n := puts(srv, func(q *http.Request) remotetest.Fault {
			if q.Method == http.MethodPut {
				return remotetest.CutAfter
			}
			return remotetest.None
		})
		if _, err := r.Send(t.Context()); err == nil || *n == 0 {
			t.Fatalf("%v, %d PUTs", err, *n)
		}
		if anew {
			r = sender(t, s)
		}
		n = puts(srv, func(*http.Request) remotetest.Fault { return remotetest.None })
		sendAll(t, r)
		if *n != 0 {
			t.Errorf("a new daemon %v: contents were sent again", anew)
		}
	}
	srv.Break(nil)
	sameHistory(t, s, readable(t, p, r))
}

// A sender with a copied state directory notices that, and tells the user.
func TestCopiedIsTold(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(25))
	s := storetest.Fresh(t)
	r := added(t, s, p)
	life(t, s, rnd, 0)
	sendAll(t, r)
	twin := sender(t, s)
	if _, err := twin.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	life(t, s, rnd, 1)
	sendAll(t, r)
	was := twin.Head().Machine.ID
	sendAll(t, twin)
	if !strings.Contains(twin.Note(), was) || twin.Head().Machine.ID == was {
		t.Errorf("%q", twin.Note())
	}
	if again := sender(t, s); again.Note() != twin.Note() {
		t.Errorf("the next daemon says %q", again.Note())
	}
}
