package remote

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
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

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const (
	pruneAge   = 10 * time.Hour
	pruneGrace = 2 * time.Hour
)

// box is a machine of the model: a store, the tree that it records, and its sender.
type box struct {
	s    *store.Store
	tree *storetest.Tree
	r    *Sender
	sent map[uint64]time.Duration // when a version was sent, on the model's clock
}

// fleet is the model: machines on one prefix. They have only the server's clock.
type fleet struct {
	rt      *rapid.T
	srv     *remotetest.Server
	p       Place
	boxes   []*box
	now     time.Duration
	within  bool   // an operation is running during a request of another one
	failed  string // why the operation during a request failed; "": it did not
	deleted int
	dirs    []string
	dir     string
}

// Machines send, resume and read, and during any of their requests others may prune. The newest
// content of each file and everything that was sent within the pruning age must remain. Contents
// that were superseded longer ago are removed.
func TestPruneModel(t *testing.T) {
	if n := flag.Lookup("rapid.checks"); n.Value.String() == n.DefValue { // each takes a fraction of a second
		_ = n.Value.Set("20")
		defer func() { _ = n.Value.Set(n.DefValue) }()
	}
	srv := remotetest.New(t)
	run, deleted := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		dir, err := os.MkdirTemp("", "prune")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		f := &fleet{rt: rt, srv: srv, p: place(t, srv, fmt.Sprint("app", run)), dir: dir}
		defer srv.Break(nil)
		f.join(storetest.FreshRapid(rt, storetest.Options()), storetest.NewTree())
		for range rapid.IntRange(8, 30).Draw(rt, "steps") {
			f.step()
		}
		srv.Break(nil)
		for range 3 {
			f.pass(pruneAge)
			f.prune()
		}
		for _, b := range f.boxes {
			f.send(b)
			f.check(b)
		}
		deleted += f.deleted
		for _, k := range srv.Objects() {
			srv.Set(k, nil)
		}
	})
	t.Logf("%d objects were deleted", deleted)
	if deleted < 10 && !t.Failed() {
		t.Errorf("%d objects were deleted: too few to say anything", deleted)
	}
}

func (f *fleet) ok(err error) {
	f.rt.Helper()
	if err != nil {
		f.fatal("%v", err)
	}
}

// fatal ends the example; the goroutine of a request only records the reason.
func (f *fleet) fatal(format string, a ...any) {
	f.rt.Helper()
	if f.within {
		f.failed = fmt.Sprintf("within a request: "+format, a...)
		panic(http.ErrAbortHandler)
	}
	f.rt.Fatalf(format, a...)
}

func (f *fleet) join(s *store.Store, tree *storetest.Tree) *box {
	b := &box{s: s, tree: tree, sent: map[uint64]time.Duration{}}
	r, err := NewSender(s, portable.PartOptions{Options: here})
	f.ok(err)
	b.r = r
	f.ok(r.Add(f.rt.Context(), f.p, "box", nil))
	f.boxes = append(f.boxes, b)
	return b
}

// step does one operation; during one of its requests another operation may run first.
func (f *fleet) step() {
	n := rapid.IntRange(0, 24).Draw(f.rt, "at request")
	do := rapid.SampledFrom([]func(*box){f.work, f.work, f.work, f.send, f.kill, f.later, f.later, func(*box) { f.prune() }, func(*box) { f.prune() }, f.resume, f.check}).Draw(f.rt, "do")
	first := rapid.SampledFrom([]func(*box){f.send, func(*box) { f.prune() }, f.check, nil}).Draw(f.rt, "first")
	of, also := rapid.SampledFrom(f.boxes).Draw(f.rt, "of"), rapid.SampledFrom(f.boxes).Draw(f.rt, "also")
	if first != nil && of != also { // a sender's methods are not called concurrently
		f.srv.Break(func(*http.Request) remotetest.Fault {
			if n--; n == 0 && !f.within {
				f.within = true
				first(also)
				f.within = false
			}
			return remotetest.None
		})
	}
	do(of)
	if f.failed != "" {
		f.rt.Fatal(f.failed)
	}
	f.srv.Break(nil)
}

func (f *fleet) write(b *box) {
	var batch []store.Change
	for range rapid.IntRange(1, 3).Draw(f.rt, "changes") {
		// Use few files and few contents, so that old contents come back.
		p := store.Path(rapid.SampledFrom([]string{"x", "y"}).Draw(f.rt, "file"))
		if n := b.tree.Files[p]; (n == nil || n.Mode&unix.S_IFMT == unix.S_IFREG) && rapid.IntRange(0, 3).Draw(f.rt, "kind") > 0 {
			batch = append(batch, b.tree.Write(p, rapid.SampledFrom([]string{"one\n", "two\n", "three\n", "four\n"}).Draw(f.rt, "text")))
		} else if c, ok := b.tree.Step(f.rt); ok {
			batch = append(batch, c)
		}
	}
	_, err := b.s.Apply(f.rt.Context(), batch, nil)
	f.ok(err)
}

func (f *fleet) work(b *box) {
	f.write(b)
	f.send(b)
}

func (f *fleet) send(b *box) {
	began := f.now
	for more := true; more; {
		var err error
		was := b.r.Head().Machine.ID
		if more, err = b.r.Send(f.rt.Context()); errors.Is(err, ErrTaken) {
			more, err = true, b.r.Add(f.rt.Context(), f.p, "box", nil)
		}
		if f.failed != "" {
			f.rt.Fatal(f.failed)
		}
		f.ok(err)
		if h := b.r.Head(); h.Machine.ID != was && h.Base == nil {
			clear(b.sent)
		}
	}
	f.note(b, began)
}

// note records that all versions have been sent, at the given time or later.
func (f *fleet) note(b *box, at time.Duration) {
	all, err := b.s.Since(0, 1<<20)
	f.ok(err)
	for _, v := range all {
		if _, ok := b.sent[v.Seq]; !ok {
			b.sent[v.Seq] = at
		}
	}
}

// kill ends the daemon at a request that was carried out; the next daemon continues.
func (f *fleet) kill(b *box) {
	n := rapid.IntRange(1, 6).Draw(f.rt, "until")
	f.srv.Break(func(*http.Request) remotetest.Fault {
		if n--; n <= 0 {
			return remotetest.CutAfter
		}
		return remotetest.None
	})
	f.write(b)
	_, _ = b.r.Send(f.rt.Context())
	f.srv.Break(nil)
	f.note(b, f.now) // sent now or later
	r, err := NewSender(b.s, portable.PartOptions{Options: here})
	f.ok(err)
	b.r = r
}

func (f *fleet) later(*box) {
	f.pass(time.Duration(rapid.IntRange(1, 12).Draw(f.rt, "hours")) * time.Hour)
}

func (f *fleet) pass(d time.Duration) {
	f.now += d
	f.srv.Pass(d)
}

func (f *fleet) prune() {
	b, err := Dial(f.p)
	f.ok(err)
	r, err := b.Prune(f.rt.Context(), PruneOptions{Age: pruneAge, Grace: pruneGrace})
	f.ok(err)
	if len(r.Kept) > 0 {
		f.fatal("%+v", r)
	}
	f.deleted += r.Deleted
}

// read returns the history of a machine as another machine reads it.
func (f *fleet) read(b *Bucket, h Head) *store.Store {
	dir := filepath.Join(f.dir, fmt.Sprint(len(f.dirs)))
	f.dirs = append(f.dirs, dir)
	f.ok(portable.Create(f.rt.Context(), dir, storetest.Options(), func(s *store.Store) error { return b.Fill(f.rt.Context(), h, s, here) }))
	s, err := store.Open(dir, storetest.Options())
	f.ok(err)
	f.rt.Cleanup(func() { _ = s.Close() })
	return s
}

func (f *fleet) latest(of *box) (*Bucket, Head, bool) {
	b, err := Dial(f.p)
	f.ok(err)
	h, err := b.Latest(f.rt.Context(), of.r.Head().Machine.ID)
	if errors.Is(err, ErrMissing) {
		return b, h, false
	}
	f.ok(err)
	return b, h, true
}

// resume lets a new machine continue another one's history, if all of that history has been sent.
func (f *fleet) resume(of *box) {
	if len(f.boxes) == 4 || f.within {
		return
	}
	f.send(of)
	b, h, ok := f.latest(of)
	if !ok {
		return
	}
	s := f.read(b, h)
	f.ok(SetOrigin(s, f.p, h))
	tree := *of.tree
	tree.Files = map[store.Path]*storetest.File{}
	nodes := map[*storetest.File]*storetest.File{}
	for p, n := range of.tree.Files {
		if nodes[n] == nil {
			c := *n
			nodes[n] = &c
		}
		tree.Files[p] = nodes[n]
	}
	got := f.join(s, &tree)
	for seq, at := range of.sent {
		got.sent[seq] = at
	}
}

// check reads a history from the bucket and compares it with the one that was sent.
func (f *fleet) check(of *box) {
	b, h, ok := f.latest(of)
	if !ok || h.N == 0 || !h.Claim.same(of.r.Head().Claim) {
		return
	}
	have, there := f.holds(b, h)
	want, err := of.s.Since(0, 1<<20)
	f.ok(err)
	want = slices.DeleteFunc(want, func(v store.Version) bool { return v.Seq > h.Seq })
	if len(have) != len(want) {
		f.fatal("%d versions, %d were sent", len(have), len(want))
	}
	newest := map[store.Path]uint64{}
	for _, v := range want {
		newest[v.Path] = v.Seq
	}
	for i, w := range want {
		if have[i] != w.Seq {
			f.fatal("#%d is where #%d belongs", have[i], w.Seq)
		}
		at, known := of.sent[w.Seq]
		if w.Blob != (store.Hash{}) && !there[w.Blob] && (known && f.now-at < pruneAge || newest[w.Path] == w.Seq) {
			f.fatal("#%d %q has lost its content; sent %v ago; it is the newest of its path: %v", w.Seq, w.Path, f.now-at, newest[w.Path] == w.Seq)
		}
	}
}

// holds returns the numbers of a history's versions, and the contents that a reader gets with it.
func (f *fleet) holds(b *Bucket, h Head) (seqs []uint64, there map[store.Hash]bool) {
	pieces, err := b.pieces(f.rt.Context(), h)
	f.ok(err)
	there = map[store.Hash]bool{}
	previous, of := "", ""
	for _, p := range pieces {
		if p.machine != of {
			previous, of = "", p.machine
		}
		contents, log, err := b.fetch(f.rt.Context(), p, previous)
		f.ok(err)
		previous = p.Log
		if contents != nil {
			f.ok(portable.ReadContents(contents, maxObject, func(h store.Hash, _ []byte) error { there[h] = true; return nil }))
		}
		is, err := portable.Read(log)
		f.ok(err)
		for _, v := range is.Versions {
			seqs = append(seqs, v.Seq)
		}
	}
	return seqs, there
}

// pruned returns a bucket to prune, and a machine that has sent an old text and a newer one.
func pruned(t *testing.T) (srv *remotetest.Server, p Place, s *store.Store, r *Sender, prune func() Pruned) {
	t.Helper()
	srv = remotetest.New(t)
	p, s = place(t, srv, "app"), storetest.Fresh(t)
	r = added(t, s, p)
	for _, text := range []string{"old\n", "newer\n"} {
		writeSend(t, s, r, text)
	}
	return srv, p, s, r, func() Pruned {
		t.Helper()
		b, err := Dial(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Prune(t.Context(), PruneOptions{Age: pruneAge, Grace: pruneGrace})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

func writeSend(t *testing.T, s *store.Store, r *Sender, text string) {
	t.Helper()
	storetest.Apply(t, s, storetest.Closed(store.OpWrite, "f", text))
	sendAll(t, r)
}

// wantText reads a history from the bucket; f must have this text.
func wantText(t *testing.T, p Place, r *Sender, text string) {
	t.Helper()
	if got := storetest.Content(t, readable(t, p, r), "f"); got != text {
		t.Errorf("f is %q, not %q", got, text)
	}
}

// A text that was dropped and is written again is sent again, both by a running daemon, which
// learns of the prune at its next head, and by a new daemon.
func TestDroppedAndWrittenAgain(t *testing.T) {
	for _, anew := range []bool{false, true} {
		srv, p, s, r, prune := pruned(t)
		srv.Pass(2 * pruneAge)
		if got := prune(); got.Marked != 1 || got.Deleted != 0 {
			t.Errorf("the mark: %+v", got)
		}
		if got := prune(); got.Marked != 0 || got.Deleted != 0 || got.Waiting != 1 {
			t.Errorf("within the grace period: %+v", got)
		}
		srv.Pass(pruneGrace)
		if got := prune(); got.Deleted != 1 {
			t.Errorf("after it: %+v", got)
		}
		wantText(t, p, r, "newer\n")
		if anew {
			r = sender(t, s)
		}
		writeSend(t, s, r, "old\n")
		wantText(t, p, r, "old\n")
	}
}

// If a text comes back between the reading of the heads and the mark, no mark is made. If it comes
// back after the mark, it is either not deleted, or stored twice.
func TestWrittenAgainWithinTheMark(t *testing.T) {
	srv, p, s, r, prune := pruned(t)
	srv.Pass(2 * pruneAge)
	within := false
	srv.Break(func(q *http.Request) remotetest.Fault {
		if !within && q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/heads/") {
			within = true
			writeSend(t, s, r, "old\n")
		}
		return remotetest.None
	})
	if got := prune(); got.Marked != 0 || len(got.Busy) != 1 {
		t.Errorf("%+v", got)
	}
	srv.Break(nil)
	for range 3 {
		srv.Pass(pruneGrace)
		prune()
		wantText(t, p, r, "old\n")
	}
	if u := unnamed(t, p); u != 0 { // the list that was written for the mark is removed too
		t.Errorf("%d objects are left", u)
	}
}

func unnamed(t *testing.T, p Place) int {
	t.Helper()
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Fsck(t.Context(), true)
	if err != nil || len(c.Problems) > 0 {
		t.Fatalf("%+v %v", c, err)
	}
	return c.Unnamed
}

// A machine has resumed a history and then sends nothing for a long time. The original machine
// continues, and contents that only the silent machine still has are dropped. When the silent
// machine returns, it sends all of them.
func TestDroppedBehindTheBack(t *testing.T) {
	for _, early := range []bool{false, true} { // the silent machine has a head of its own before the mark
		srv := remotetest.New(t)
		p, s := place(t, srv, "app"), storetest.Fresh(t)
		r := added(t, s, p)
		writeSend(t, s, r, "shared\n")
		b, err := Dial(p)
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.Latest(t.Context(), r.Head().Machine.ID)
		if err != nil {
			t.Fatal(err)
		}
		next := readable(t, p, r)
		if err := SetOrigin(next, p, h); err != nil {
			t.Fatal(err)
		}
		rn := added(t, next, p) // the original machine holds the id, so this one gets a new id
		other := func() {
			storetest.Apply(t, next, storetest.Closed(store.OpWrite, "g", "of the next\n"))
			sendAll(t, rn)
		}
		if early {
			other()
		}
		writeSend(t, s, r, "newer\n")
		deleted := 0
		for range 3 {
			srv.Pass(pruneAge)
			got, err := b.Prune(t.Context(), PruneOptions{Age: pruneAge, Grace: pruneGrace})
			if err != nil {
				t.Fatal(err)
			}
			deleted += got.Deleted
		}
		if (deleted > 0) == early {
			t.Errorf("early %v: %d objects were deleted", early, deleted)
		}
		other()
		wantText(t, p, rn, "shared\n")
		wantText(t, p, r, "newer\n")
		if again := strings.Contains(rn.Note(), "sent again"); again == early {
			t.Errorf("early %v: %q", early, rn.Note())
		}
	}
}

// Objects of a killed sender are removed, but none that a sender is about to name.
func TestLeftBehindGoes(t *testing.T) {
	srv, p, s, r, prune := pruned(t)
	kill := func() {
		storetest.Apply(t, s, storetest.Closed(store.OpWrite, "f", fmt.Sprint("text ", s.Seq())))
		srv.Break(func(q *http.Request) remotetest.Fault {
			if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/heads/") {
				return remotetest.CutBefore
			}
			return remotetest.None
		})
		if _, err := r.Send(t.Context()); err == nil {
			t.Error("it was sent")
		}
		srv.Break(nil)
	}
	kill()
	if u := unnamed(t, p); u != 2 {
		t.Errorf("%d objects are in no head", u)
	}
	srv.Pass(pruneGrace + time.Minute)
	prune() // marks
	srv.Pass(pruneGrace + time.Minute)
	if got := prune(); got.Deleted != 2 || unnamed(t, p) != 0 {
		t.Errorf("%+v, %d are left", got, unnamed(t, p))
	}
	sendAll(t, r) // the same text
	wantText(t, p, r, "text 2")
}
