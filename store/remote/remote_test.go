package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/portable"
)

var here = portable.Options{Program: "1", Root: "/p", Buckets: []string{"notes"}}

func place(t testing.TB, s *remotetest.Server, prefix string) Place {
	t.Helper()
	p, err := ParsePlace(s.Address(prefix), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sender(t testing.TB, s *store.Store) *Sender {
	t.Helper()
	r, err := NewSender(s, portable.PartOptions{Options: here, Leave: func(v store.Version) bool { return v.Path == ".env" }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func added(t testing.TB, s *store.Store, p Place) *Sender {
	t.Helper()
	r := sender(t, s)
	if err := r.Add(t.Context(), p, "box", nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func sendAll(t testing.TB, r *Sender) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = r.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Unsent(); n != 0 {
		t.Fatalf("%d versions are not sent", n)
	}
}

// readBack imports what a machine has sent.
func readBack(t testing.TB, p Place, machine string) (*store.Store, error) {
	t.Helper()
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	heads, bad, err := b.Heads(t.Context())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(heads, func(h Head) bool { return h.Machine.ID == machine })
	if i < 0 {
		if len(bad) > 0 {
			return nil, bad[0]
		}
		return nil, fmt.Errorf("%w: %s", ErrMissing, machine)
	}
	dir := filepath.Join(t.TempDir(), "store")
	err = portable.Create(t.Context(), dir, storetest.Options(), func(s *store.Store) error { return b.Fill(t.Context(), heads[i], s, here) })
	if err != nil {
		return nil, err
	}
	return storetest.Open(t, dir, storetest.Options()), nil
}

func readable(t testing.TB, p Place, r *Sender) *store.Store {
	t.Helper()
	s, err := readBack(t, p, r.Head().Machine.ID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sameHistory compares all versions with their contents, and the other records.
func sameHistory(t testing.TB, want, got *store.Store) {
	t.Helper()
	a, err := want.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	a = slices.DeleteFunc(a, func(v store.Version) bool { return v.Path == ".env" })
	for i := range a {
		a[i].Foreign = true
	}
	if !slices.Equal(a, b) {
		t.Fatalf("%d versions, read back %d, or others", len(a), len(b))
	}
	for _, v := range b {
		if v.Blob == (store.Hash{}) {
			continue
		}
		w, err := want.Content(v.Blob)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := got.Content(v.Blob); err != nil || !bytes.Equal(g, w) {
			t.Fatalf("content of #%d: %v", v.Seq, err)
		}
	}
	for _, kv := range []struct{ of *store.Store }{{want}, {got}} {
		if v, ok, err := kv.of.KV("notes").Get("n"); err != nil || !ok || string(v) != "remember" {
			t.Fatalf("the note: %q %v %v", v, ok, err)
		}
	}
	p, err := got.Journal.Plans()
	if w, werr := want.Journal.Plans(); err != nil || werr != nil || len(p) != len(w) {
		t.Fatalf("%d plans, were %d: %v %v", len(p), len(w), err, werr)
	}
}

// life changes a few files, and adds other records of a history.
func life(t testing.TB, s *store.Store, rnd *rand.Rand, round int) {
	t.Helper()
	for range 1 + rnd.Intn(6) {
		p := store.Path(fmt.Sprintf("d%d/f%d", rnd.Intn(3), rnd.Intn(8)))
		storetest.Apply(t, s, storetest.Closed(store.OpWrite, p, fmt.Sprintf("round %d\n%d\n", round, rnd.Intn(20))))
	}
	storetest.Apply(t, s, storetest.Closed(store.OpWrite, ".env", fmt.Sprint("TOP-SECRET ", round)))
	if err := errors.Join(s.KV("notes").Set("n", []byte("remember")),
		s.Sessions.Put(store.Session{ID: store.SessionID(fmt.Sprint("s", round%3)), Client: "claude", Started: 1, Last: int64(round + 2)}),
		s.Sessions.PutPrompt(store.Prompt{ID: fmt.Sprint("p", round), Session: "s0", Time: int64(round), Text: "do it"})); err != nil {
		t.Fatal(err)
	}
	if round%3 != 0 {
		return
	}
	plan := store.Plan{Kind: store.PlanUndo, Steps: []store.Step{{N: 1, Do: store.DoDelete, Path: "x"}}}
	if err := s.Journal.Begin(t.Context(), &plan, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Journal.Done(plan.ID, 1), s.Journal.Finish(plan.ID, nil)); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to the link, and wherever the daemon is killed, everything that a machine stored
// is in the bucket in the end. Each version is there once, in order, with all that belongs to it.
func TestNothingIsLostOnTheWay(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	s := storetest.Fresh(t)
	rnd := rand.New(rand.NewSource(7))
	r := added(t, s, p)
	var met [remotetest.Faults]int
	chance := rand.New(rand.NewSource(8))
	failed, killed := 0, 0
	for round := range 90 {
		life(t, s, rnd, round)
		srv.Break(func(*http.Request) remotetest.Fault {
			f := remotetest.None
			if chance.Intn(8) == 0 {
				f = remotetest.Fault(chance.Intn(int(remotetest.Faults)))
			}
			met[f]++
			return f
		})
		if _, err := r.Send(t.Context()); err != nil {
			failed++
		}
		if rnd.Intn(4) == 0 { // another daemon finds only what is in the store
			r = sender(t, s)
			killed++
		}
	}
	srv.Break(nil)
	sendAll(t, r)
	for f, n := range met {
		if n == 0 {
			t.Errorf("no request met fault %d", f)
		}
	}
	if failed == 0 || killed == 0 || r.Head().N < listAfter {
		t.Errorf("%d failures, %d new daemons, %d segments: too few to say anything", failed, killed, r.Head().N)
	}
	sameHistory(t, s, readable(t, p, r))
	if b, err := Dial(p); err != nil {
		t.Fatal(err)
	} else if heads, _, err := b.Heads(t.Context()); err != nil || len(heads) != 1 {
		t.Errorf("%d machines: %v", len(heads), err)
	}
	for _, key := range srv.Objects() {
		if bytes.Contains(srv.Object(key), []byte("TOP-SECRET")) {
			t.Errorf("%s holds a secret", key)
		}
	}
	// If nothing is new, there is nothing to do.
	before := srv.Asked()
	sendAll(t, r)
	if n := srv.Asked() - before; n > 0 {
		t.Errorf("%d requests for nothing", n)
	}
}

// A killed daemon may not know that its head was written. At each of its requests in turn, the
// connection ends after the request was carried out, and a new daemon continues.
func TestKilledAtEachRequest(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	s := storetest.Fresh(t)
	rnd := rand.New(rand.NewSource(3))
	r := added(t, s, p)
	for n := range 8 {
		life(t, s, rnd, n)
		life(t, s, rnd, n)
		asked := 0
		srv.Break(func(*http.Request) remotetest.Fault {
			if asked++; asked > n/2 {
				return remotetest.CutAfter
			}
			return remotetest.None
		})
		_, _ = r.Send(t.Context())
		srv.Break(nil)
		r = sender(t, s)
	}
	sendAll(t, r)
	sameHistory(t, s, readable(t, p, r))
}

// Two machines on one prefix do not disturb each other. A copied state directory becomes a
// machine of its own from its first new version on.
func TestEachMachineItsOwn(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(5))
	dir := filepath.Join(t.TempDir(), "a")
	a, err := store.Open(dir, storetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	life(t, a, rnd, 0)
	sendAll(t, added(t, a, p))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir+"-copy", os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	a = storetest.Open(t, dir, storetest.Options())
	twin := storetest.Open(t, dir+"-copy", storetest.Options())
	b := storetest.Fresh(t)
	life(t, b, rnd, 0)
	rb := added(t, b, p)
	ra, rt := sender(t, a), sender(t, twin)
	for round := range 4 {
		for _, one := range []struct {
			s *store.Store
			r *Sender
		}{{a, ra}, {twin, rt}, {b, rb}} {
			life(t, one.s, rnd, round+1)
			sendAll(t, one.r)
		}
	}
	if ra.Head().Machine.ID == rt.Head().Machine.ID {
		t.Error("two histories under one id")
	}
	sameHistory(t, a, readable(t, p, ra))
	sameHistory(t, twin, readable(t, p, rt))
	sameHistory(t, b, readable(t, p, rb))
}

// A history that came from a bucket continues there without being sent again.
func TestGoesOnWhereItCameFrom(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(6))
	s := storetest.Fresh(t)
	for round := range 3 {
		life(t, s, rnd, round)
	}
	r := added(t, s, p)
	sendAll(t, r)
	for hop := range 3 {
		next := readable(t, p, r)
		if err := SetOrigin(next, p, r.Head()); err != nil {
			t.Fatal(err)
		}
		life(t, s, rnd, 50+hop) // the old machine continues too
		sendAll(t, r)
		nr := added(t, next, p)
		life(t, next, rnd, 60+hop)
		sendAll(t, nr)
		if n := nr.Head().Versions; n > 10 {
			t.Errorf("%d versions were sent again", n)
		}
		sameHistory(t, next, readable(t, p, nr))
		s, r = next, nr
	}
}

// Whatever is in the bucket, only objects that were sent are accepted.
func TestHostileBucket(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	s := storetest.Fresh(t)
	rnd := rand.New(rand.NewSource(9))
	r := added(t, s, p)
	var early map[string][]byte
	for round := range 5 {
		life(t, s, rnd, round)
		sendAll(t, r)
		if round == 2 {
			early = map[string][]byte{}
			for _, k := range srv.Objects() {
				early[k] = srv.Object(k)
			}
		}
	}
	id := r.Head().Machine.ID
	keys := srv.Objects()
	refused := func(what string, as ...error) {
		t.Helper()
		_, err := readBack(t, p, id)
		if err == nil {
			t.Errorf("%s: taken for the history", what)
		}
		if len(as) > 0 && !slices.ContainsFunc(as, func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i, k := range keys {
		if k == "app/machines" { // TestOneMachineIsDamaged
			continue
		}
		was := srv.Object(k)
		flipped := bytes.Clone(was)
		flipped[rnd.Intn(len(flipped))] ^= 1
		srv.Set(k, flipped)
		refused("a bit of "+k, ErrForged, store.ErrNewer)
		srv.Set(k, was[:len(was)/2])
		refused("half of "+k, ErrForged)
		srv.Set(k, append(bytes.Clone(was), bytes.Repeat([]byte{0}, 2<<20)...))
		refused("more than "+k, ErrForged)
		srv.Set(k, nil)
		refused("without "+k, ErrMissing)
		if other := srv.Object(keys[(i+1)%len(keys)]); !bytes.Equal(other, was) {
			srv.Set(k, other)
			refused("another object as "+k, ErrForged)
		}
		srv.Set(k, was)
		if strings.Contains(k, "/heads/") {
			srv.Set(k, bytes.Replace(was, []byte("cachebro-remote 1 "), []byte("cachebro-remote 3 "), 1))
			refused("a newer "+k, store.ErrNewer)
			srv.Set(k, was)
		}
	}
	head := headKey(id)
	for _, change := range []func(*Head){
		func(h *Head) { h.Segments = h.Segments[1:] },
		func(h *Head) { h.Segments[1], h.Segments[2] = h.Segments[2], h.Segments[1] },
		func(h *Head) { h.Segments[1].Log = h.Segments[2].Log },
		func(h *Head) { h.Segments[1].Log = "../../heads/" + id },
		func(h *Head) { h.Segments[0].ContentsSize = 1 << 50 },
		func(h *Head) { h.Segments[0].Contents, h.Segments[0].ContentsSize = "", 0 },
		func(h *Head) { h.Segments[2].N = 2 },
		func(h *Head) { h.N = 1 << 60 },
		func(h *Head) { h.Machine.ID = strings.Repeat("0", 32) },
		func(h *Head) { h.Base = &Base{Machine: id, N: 1, Log: h.Segments[0].Log} },
		func(h *Head) { h.Base = &Base{Machine: "../x", N: 1} },
		func(h *Head) { h.List = h.Log },
	} {
		h := r.Head()
		h.Segments = slices.Clone(h.Segments)
		change(&h)
		key := "app/" + head
		was := srv.Object(key)
		srv.Set(key, h.body())
		refused(fmt.Sprintf("a head that says %+v", h))
		srv.Set(key, was)
	}
	sameHistory(t, s, readable(t, p, r)) // the unchanged bucket can be read

	// The bucket is in an earlier state. The machine that sent to it notices, and sends nothing
	// more to it without being asked.
	for k, b := range early {
		srv.Set(k, b)
	}
	life(t, s, rnd, 6)
	again := sender(t, s)
	if _, err := again.Send(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("a bucket that went back: %v", err)
	}
	for _, k := range keys {
		srv.Set(k, nil)
	}
	if _, err := again.Send(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("an empty bucket: %v", err)
	}
	if err := again.Add(t.Context(), p, "box", nil); err != nil {
		t.Fatal(err)
	}
	sendAll(t, again)
	sameHistory(t, s, readable(t, p, again))
}

// An endless answer does not use endless memory.
func TestEndlessAnswer(t *testing.T) {
	remotetest.New(t) // for the credentials
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	b, err := Dial(Place{Bucket: "endless", Endpoint: srv.URL, PathStyle: true, Region: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Machines(t.Context()); !errors.Is(err, ErrForged) {
		t.Error(err)
	}
}

// If the answer to a listing does not end, the error used to be that of a context, and the command
// said that it was interrupted.
func TestListingThatStalls(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "<ListBucketResult>")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	b, err := Dial(Place{Bucket: "stalled", Endpoint: srv.URL, PathStyle: true, Region: "x"})
	if err != nil {
		t.Fatal(err)
	}
	b.pageWithin = time.Millisecond
	if _, _, err := b.Heads(t.Context()); !errors.Is(err, errLate) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Heads(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled by the caller: %v", err)
	}
}

func TestParsePlace(t *testing.T) {
	env := map[string]string{"AWS_REGION": "eu-1", "AWS_ENDPOINT_URL": "https://minio:9000/"}
	p, err := ParsePlace("s3://b/a//c/?path-style=1", func(n string) string { return env[n] })
	if want := (Place{Bucket: "b", Prefix: "a/c", Endpoint: "https://minio:9000", Region: "eu-1", PathStyle: true}); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if again, err := ParsePlace(p.String(), func(string) string { return "" }); err != nil || again != p {
		t.Errorf("%s: %+v, %v", p, again, err)
	}
	for _, s := range []string{"", "b/c", "http://b/c", "s3:///x", "s3://key:secret@b/c", "s3://b/c?what=1", "s3://b?endpoint=ftp://x", "s3://b?endpoint=https://u:p@x", "s3://b?ca=rel.pem", "s3://b#x"} {
		if p, err := ParsePlace(s, func(string) string { return "" }); err == nil {
			t.Errorf("%q is %+v", s, p)
		}
	}
}

// A damaged head used to make the histories of all machines unreadable, and so did a damaged or lost
// list of machines. fsck reported a damaged log twice, and called the objects of a machine whose head
// it could not read remainders that prune deletes.
func TestOneMachineIsDamaged(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	rnd := rand.New(rand.NewSource(11))
	stores := []*store.Store{storetest.Fresh(t), storetest.Fresh(t)}
	var senders []*Sender
	for _, s := range stores {
		r := added(t, s, p)
		life(t, s, rnd, 0)
		sendAll(t, r)
		senders = append(senders, r)
	}
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	good, broken := senders[0].Head(), senders[1].Head()
	check := func(what string, machines, bad, unread, problems int) {
		t.Helper()
		heads, all, err := b.Heads(t.Context())
		if err != nil || len(heads) != machines || len(all) != bad {
			t.Errorf("%s: %d heads, %v, %v", what, len(heads), all, err)
		}
		sameHistory(t, stores[0], readable(t, p, senders[0]))
		for _, whole := range []bool{false, true} {
			r, err := b.Fsck(t.Context(), whole)
			if err != nil || r.Unnamed != 0 || r.Unread != unread || len(r.Problems) != problems {
				t.Errorf("%s: %+v, %v", what, r, err)
			}
		}
	}
	objects := 0
	for _, k := range srv.Objects() {
		if strings.Contains(k, broken.Machine.ID) {
			objects++
		}
	}
	damage := func(key string, b []byte, f func()) {
		was := srv.Object("app/" + key)
		srv.Set("app/"+key, b)
		f()
		srv.Set("app/"+key, was)
	}
	check("as it was sent", 2, 0, 0, 0)
	head := headKey(broken.Machine.ID)
	damage(head, []byte("damaged"), func() {
		check("a damaged head", 1, 1, objects-1, 1)
		u, err := b.Usage(t.Context())
		if err != nil || len(u.Machines) != 2 {
			t.Fatalf("%+v, %v", u, err)
		}
		for _, m := range u.Machines {
			if strings.Contains(m.Problem, head) != (m.Machine.ID == broken.Machine.ID) {
				t.Errorf("%+v", m)
			}
		}
		if _, err := b.Prune(t.Context(), PruneOptions{Age: time.Second}); err == nil || !strings.Contains(err.Error(), head) {
			t.Errorf("prune: %v", err)
		}
	})
	damage(head, nil, func() { check("a lost head", 1, 0, objects-1, 1) })
	damage("machines", []byte("damaged"), func() { check("a damaged list", 2, 1, 0, 3) })
	damage("machines", nil, func() { check("a lost list", 2, 0, 0, 2) })
	damage(logKey(broken.Machine.ID, broken.Log), []byte("damaged"), func() { check("a damaged log", 2, 0, 0, 1) })

	// A list that names something else than machines is not used.
	list := seal("machines", false, machines{Machines: []Machine{{ID: good.Machine.ID}, {ID: "../" + good.Machine.ID}}})
	damage("machines", list, func() { check("a list that names a path", 2, 1, 0, 3) })
}
