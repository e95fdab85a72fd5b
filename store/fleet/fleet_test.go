package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/portable"
	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
)

// box is a machine that sends to a bucket.
type box struct {
	name  string
	place remote.Place
	s     *store.Store
	r     *remote.Sender
}

func at(t testing.TB, srv *remotetest.Server, prefix string) remote.Place {
	t.Helper()
	p, err := remote.ParsePlace(srv.Address(prefix), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBox(t testing.TB, p remote.Place, name string) *box {
	t.Helper()
	b := &box{name: name, place: p, s: storetest.Fresh(t)}
	b.add(t)
	return b
}

func (b *box) add(t testing.TB) {
	t.Helper()
	var err error
	b.r, err = remote.NewSender(b.s, portable.PartOptions{Options: portable.Options{Program: "1", Root: "/p/" + b.name}})
	if err == nil {
		err = b.r.Add(t.Context(), b.place, b.name, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *box) send(t testing.TB) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.r.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// write closes a file as a session's tool call does.
func (b *box) write(t testing.TB, path store.Path, content, session, call string) store.Version {
	t.Helper()
	c := storetest.Closed(store.OpWrite, path, content)
	c.Actor = store.Actor{PID: 9, Start: 4, Comm: "sh", Session: store.SessionID(session), Prompt: session + "-p", ToolCall: call, Tool: "Bash"}
	return storetest.Apply(t, b.s, c)[0]
}

// live makes a machine write and remove files in a session.
func (b *box) live(t testing.TB, rnd *rand.Rand, round int) {
	t.Helper()
	session := fmt.Sprintf("session-%s-%d", b.name, round/3)
	if err := b.s.Sessions.Put(store.Session{ID: store.SessionID(session), Client: "claude", Started: 1, Last: int64(round + 1)}); err != nil {
		t.Fatal(err)
	}
	call := fmt.Sprintf("call-%s-%d", b.name, round)
	if err := b.s.Sessions.PutPrompt(store.Prompt{ID: session + "-p", Session: store.SessionID(session), Time: 5, Text: "do\x00 it"}); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Sessions.PutToolCall(store.ToolCall{ID: call, Session: store.SessionID(session), Tool: "Bash", Title: "make \xff all", Begin: storetest.Now().UnixNano(), End: storetest.Now().UnixNano() + 5, Failed: round == 4}); err != nil {
		t.Fatal(err)
	}
	for range 1 + rnd.IntN(8) {
		b.write(t, store.Path(fmt.Sprintf("dir/\xff%d", rnd.IntN(5))), string(storetest.Noise(rnd, 1+rnd.IntN(9))), session, call)
	}
	storetest.Apply(t, b.s, storetest.Told(store.OpUnlink, store.Path(fmt.Sprintf("dir/\xff%d", rnd.IntN(5))), "", storetest.FileMode))
}

func (b *box) feed(ctx context.Context, t testing.TB, d *DB) (FeedResult, error) {
	t.Helper()
	bucket, err := remote.Dial(b.place)
	if err != nil {
		t.Fatal(err)
	}
	return d.Feed(ctx, b.place, bucket, 3)
}

// TestFleet: several workers read the buckets at the same time, over a bad link and with
// interruptions. The tables then contain every version of every machine exactly once.
func TestFleet(t *testing.T) {
	address := fleettest.Postgres(t)
	srv := remotetest.New(t)
	rnd := rand.New(rand.NewPCG(24, 0))
	app, lib := at(t, srv, "team/app"), at(t, srv, "team/lib")
	boxes := []*box{newBox(t, app, "one"), newBox(t, app, "two"), newBox(t, lib, "one"), newBox(t, app, "three")}

	var dbs [3]*DB // all three migrate at the same time
	var wg sync.WaitGroup
	for i := range dbs {
		wg.Go(func() {
			var err error
			if dbs[i], err = Open(t.Context(), address, 4); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, d := range dbs {
		t.Cleanup(d.Close)
	}
	failed := 0
	for round := range 12 {
		for _, b := range boxes {
			b.live(t, rnd, round)
			b.send(t)
		}
		var mu sync.Mutex
		srv.Break(func(*http.Request) remotetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if rnd.IntN(6) == 0 {
				return remotetest.Fault(rnd.IntN(int(remotetest.Faults)))
			}
			return remotetest.None
		})
		for i, d := range dbs {
			for _, b := range []*box{boxes[0], boxes[2]} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(round*7+i*13)%60)*10*time.Millisecond)
				wg.Go(func() {
					defer cancel()
					if _, err := b.feed(ctx, t, d); err != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		srv.Break(nil)
	}
	if failed == 0 {
		t.Error("nothing ever failed")
	}
	for _, b := range []*box{boxes[0], boxes[2]} {
		// A cancelled feed may leave its lease, which then has to expire.
		f, err := b.feed(t.Context(), t, dbs[0])
		for deadline := time.Now().Add(time.Minute); f.Busy > 0 && time.Now().Before(deadline); f, err = b.feed(t.Context(), t, dbs[0]) {
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		if f, err := b.feed(t.Context(), t, dbs[1]); err != nil || f.Segments != 0 || f.Busy != 0 {
			t.Errorf("nothing is new: %+v, %v", f, err)
		}
	}
	for _, b := range boxes {
		b.compare(t, dbs[2])
	}
	var problems int
	if err := dbs[0].pool.QueryRow(t.Context(), `select count(*) from machines where problem is not null`).Scan(&problems); err != nil || problems != 0 {
		t.Errorf("%d problems, %v", problems, err)
	}
}

// compare checks that the tables have the same versions as the machine's store.
func (b *box) compare(t testing.TB, d *DB) {
	t.Helper()
	want, err := b.s.Since(0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var got []Version
	q := Query{Project: place(b.place), Machine: b.r.Head().Machine.ID}
	if err := d.Log(t.Context(), q, func(v Version) error { got = append(got, v); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(got)
	if len(got) != len(want) {
		t.Fatalf("%s: %d versions of %d", b.name, len(got), len(want))
	}
	for i, v := range want {
		g := got[i]
		path := g.Path
		if g.PathBytes != nil {
			path = string(g.PathBytes)
		}
		hash := store.Hash{}
		copy(hash[:], g.Blob)
		if uint64(g.Seq) != v.Seq || path != string(v.Path) || hash != v.Blob || g.Time.UnixMicro() != v.Time/1000 || g.Size != v.Stat.Size ||
			g.Op != onwire.OpName(v.Op) || g.Session != string(v.Actor.Session) || g.Machine != b.name {
			t.Fatalf("%s: version %d is %+v, not %+v", b.name, v.Seq, g, v)
		}
		call, told, err := b.s.Sessions.ToolCall(v.Actor.ToolCall)
		if err != nil {
			t.Fatal(err)
		}
		if told && (g.Action != plain(call.Title) || g.Tool != call.Tool) {
			t.Fatalf("the action of version %d is %q by %q", v.Seq, g.Action, g.Tool)
		}
	}
	sessions, err := b.s.Sessions.List(0)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]time.Time{}
	rows, _ := d.pool.Query(t.Context(), `select s.id, s.last from sessions s join machines m on m.id = s.machine where m.machine = $1`, q.Machine)
	var id string
	var last time.Time
	if _, err := pgx.ForEachRow(rows, []any{&id, &last}, func() error { have[id] = last.UTC(); return nil }); err != nil {
		t.Fatal(err)
	}
	told := map[string]time.Time{}
	for _, s := range sessions {
		told[string(s.ID)] = time.Unix(0, s.Last).UTC().Truncate(time.Microsecond)
	}
	if !reflect.DeepEqual(have, told) {
		t.Errorf("%s: sessions %v, not %v", b.name, have, told)
	}
}

// TestBlame: a line is attributed to the machine that wrote it, even across a pull, a rename or a
// resumed history.
func TestBlame(t *testing.T) {
	d, err := Open(t.Context(), fleettest.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	one, two := newBox(t, p, "one"), newBox(t, p, "two")
	one.write(t, "a.go", "first\n", "s1", "c1")
	one.send(t)
	one.write(t, "a.go", "first\nsecond\n", "s1", "c2")
	one.send(t)
	// A pull brings the file to the other machine in one step.
	storetest.Apply(t, two.s, storetest.Closed(store.OpCreate, "a.go", "first\nsecond\n"))
	two.write(t, "a.go", "zeroth\nfirst\nsecond\n", "s2", "c3")
	c := storetest.Told(store.OpRename, "a.go", "b.go", storetest.FileMode)
	storetest.Apply(t, two.s, c)
	two.write(t, "b.go", "zeroth\nfirst\nsecond\nthird\n", "s2", "c4")
	two.send(t)

	// The history continues on another machine.
	b, err := remote.Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	head, err := b.Head(t.Context(), two.r.Head().Machine.ID)
	if err != nil {
		t.Fatal(err)
	}
	three := &box{name: "three", place: p, s: storetest.Fresh(t)}
	if _, err := b.Follow(t.Context(), head, remote.Known{}, three.s, portable.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := remote.SetOrigin(three.s, p, head); err != nil {
		t.Fatal(err)
	}
	three.add(t)
	three.write(t, "b.go", "zeroth\nfirst\nsecond\nthird\nfourth\n", "s3", "c5")
	three.send(t)
	if _, err := one.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}

	blame := func(q Query, want ...string) {
		t.Helper()
		lines, err := d.Blame(t.Context(), p, b, q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%s %s %s", l.Machine, l.Session, l.Text[:len(l.Text)-1]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, not %q", q, got, want)
		}
	}
	blame(Query{Path: "a.go", Machine: "one"}, "one s1 first", "one s1 second")
	blame(Query{Path: "b.go", Machine: "two"}, "two s2 zeroth", "one s1 first", "one s1 second", "two s2 third")
	blame(Query{Path: "b.go"}, "two s2 zeroth", "one s1 first", "one s1 second", "two s2 third", "three s3 fourth")
	if _, err := d.Blame(t.Context(), p, b, Query{Path: "none"}); !errors.Is(err, ErrNoText) {
		t.Errorf("a missing file: %v", err)
	}
	first, err := d.Blame(t.Context(), p, b, Query{Path: "a.go", Machine: "one"})
	if err != nil || first[0].Seq == first[1].Seq {
		t.Errorf("both lines are of #%d: %v", first[0].Seq, err)
	}
}

// TestAudit: any changed byte, and any lost, moved or added line, is detected.
func TestAudit(t *testing.T) {
	d, err := Open(t.Context(), fleettest.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	srv := remotetest.New(t)
	b := newBox(t, at(t, srv, "app"), "one")
	for i := range 4 {
		b.write(t, "a b ", fmt.Sprint(i), "s", "c")
	}
	b.send(t)
	if _, err := b.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sum, n, err := d.Export(t.Context(), Query{}, time.Now(), &out)
	if err != nil || n != 4 {
		t.Fatalf("%d versions, %v", n, err)
	}
	whole := out.Bytes()
	if got, n, err := Verify(bytes.NewReader(whole), nil); err != nil || got != sum || n != 4 {
		t.Fatalf("%s, %d versions, %v", got, n, err)
	}
	bad := func(what string, b []byte) {
		t.Helper()
		if _, _, err := Verify(bytes.NewReader(b), nil); !errors.Is(err, ErrAudit) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range whole {
		for _, bit := range []byte{1, 0x20, 0x80} {
			changed := bytes.Clone(whole)
			changed[i] ^= bit
			bad(fmt.Sprintf("byte %d", i), changed)
		}
		bad(fmt.Sprintf("cut at %d", i), whole[:i])
		bad(fmt.Sprintf("byte %d lost", i), slices.Delete(bytes.Clone(whole), i, i+1))
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines {
		bad("a line lost", bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
		bad("a line twice", bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil))
		moved := slices.Clone(lines)
		j := (i + 1) % len(lines)
		moved[i], moved[j] = moved[j], moved[i]
		bad("lines changed places", bytes.Join(moved, nil))
	}
	bad("nothing", nil)
	bad("a line without an end", bytes.Repeat([]byte("x"), 3*auditLine))
}

// TestAddOnce: each segment is added exactly once, even if two processes feed a machine without a
// lease.
func TestAddOnce(t *testing.T) {
	d, err := Open(t.Context(), fleettest.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	srv := remotetest.New(t)
	b := newBox(t, at(t, srv, "app"), "one")
	b.write(t, "a", "a", "s", "c")
	b.send(t)
	if _, err := b.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{1, 3} {
		l := remote.Log{Segment: remote.Segment{N: n, Log: "x"}}
		l.Versions = []store.Version{{Seq: 10 + n, Op: store.OpWrite, Path: "b", Time: 1}}
		if err := d.add(t.Context(), 1, l); !errors.Is(err, errFed) {
			t.Errorf("segment %d behind 1: %v", n, err)
		}
	}
	b.compare(t, d)
}

// TestClocksApart: the versions of machines whose clocks differ by days are added completely, in
// each machine's own order. After old versions have been dropped, an audit still matches the
// bucket.
func TestClocksApart(t *testing.T) {
	d := opened(t)
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	for name, ahead := range map[string]time.Duration{"right": 0, "behind": -40 * 24 * time.Hour, "ahead": 50 * time.Hour} {
		b := newBox(t, p, name)
		for i := range 3 {
			c := storetest.Closed(store.OpWrite, "a.txt", fmt.Sprint(name, i))
			c.Time += int64(ahead) - int64(i)*int64(time.Hour) // and the clock is set back by an hour each time
			storetest.Apply(t, b.s, c)
			b.send(t)
			if _, err := b.feed(t.Context(), t, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	bucket, err := remote.Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(want int64) {
		t.Helper()
		var file bytes.Buffer
		if _, n, err := d.Export(t.Context(), Query{}, time.Now(), &file); err != nil || n != want {
			t.Errorf("%d versions are exported, not %d: %v", n, want, err)
		}
		against := NewAgainst(t.Context())
		against.Add(p, bucket)
		_, _, err := Verify(&file, against)
		if err := errors.Join(err, against.Missing()); err != nil {
			t.Error(err)
		}
	}
	whole(9)
	for _, name := range []string{"right", "behind", "ahead"} { // even if the machine's clock was wrong, this is the text that the machine itself wrote last
		lines, err := d.Blame(t.Context(), p, bucket, Query{Path: "a.txt", Machine: name})
		if err != nil || len(lines) != 1 || lines[0].Machine != name || string(lines[0].Text) != name+"2" {
			t.Errorf("blame of %s: %+v, %v", name, lines, err)
		}
	}
	if _, err := d.Prune(t.Context(), storetest.Now().AddDate(0, 0, -30)); err != nil {
		t.Fatal(err)
	}
	whole(6)
}

// TestHostileBucket: data that does not match its hashes gets into no table and is reported in the
// machine's row. The other machines are still fed.
func TestHostileBucket(t *testing.T) {
	d, err := Open(t.Context(), fleettest.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	one, two := newBox(t, p, "one"), newBox(t, p, "two")
	for i := range 3 {
		one.write(t, "a", fmt.Sprint(i), "s", "c")
		one.send(t)
	}
	two.write(t, "b", "b", "s", "c")
	two.send(t)
	head := one.r.Head()
	key := "app/logs/" + head.Machine.ID + "/" + head.Segments[1].Log
	was := srv.Object(key)
	forged := bytes.Clone(was)
	forged[len(forged)/2] ^= 1
	problem := func() (s string) {
		t.Helper()
		if err := d.pool.QueryRow(t.Context(), `select coalesce(problem, '') from machines where machine = $1`, head.Machine.ID).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, bad := range [][]byte{forged, srv.Object("app/logs/" + head.Machine.ID + "/" + head.Segments[0].Log), was[:9]} {
		srv.Set(key, bad)
		if _, err := one.feed(t.Context(), t, d); !errors.Is(err, remote.ErrForged) {
			t.Errorf("a forged log: %v", err)
		}
		if s := problem(); !strings.Contains(s, "does not contain what was sent") {
			t.Errorf("the row says %q", s)
		}
		two.compare(t, d)
		n := 0
		if err := d.Log(t.Context(), Query{Machine: "one"}, func(Version) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("%d versions of the forged history, %v", n, err)
		}
	}
	srv.Set(key, was)
	if _, err := one.feed(t.Context(), t, d); err != nil || problem() != "" {
		t.Errorf("%v, %q", err, problem())
	}
	one.compare(t, d)
	srv.Set("app/heads/"+head.Machine.ID, srv.Object("app/heads/"+two.r.Head().Machine.ID))
	if _, err := one.feed(t.Context(), t, d); !errors.Is(err, remote.ErrForged) {
		t.Errorf("another machine's head: %v", err)
	}
	one.compare(t, d)
}
