package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/portable"
	"cachebro/store/remote"
)

// successor continues a box's history on another machine, under the same id if the box has sent
// nothing for a long time.
func successor(t testing.TB, from *box, name string) *box {
	t.Helper()
	b, err := remote.Dial(from.place)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Latest(t.Context(), from.r.Head().Machine.ID)
	if err != nil {
		t.Fatal(err)
	}
	next := &box{name: name, place: from.place, s: storetest.Fresh(t)}
	if _, err := b.Follow(t.Context(), h, remote.Known{}, next.s, portable.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := remote.SetOrigin(next.s, from.place, h); err != nil {
		t.Fatal(err)
	}
	next.r = secretive(t, next)
	if err := next.r.Add(t.Context(), next.place, name, nil); err != nil {
		t.Fatal(err)
	}
	return next
}

// secretive returns a sender for a box's history. The sender leaves out files that look like
// secrets.
func secretive(t testing.TB, b *box) *remote.Sender {
	t.Helper()
	r, err := remote.NewSender(b.s, portable.PartOptions{
		Options: portable.Options{Program: "1", Root: "/p/" + b.name},
		Leave:   func(v store.Version) bool { return ignore.Secret(string(v.Path)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func opened(t testing.TB) *DB {
	t.Helper()
	return openedAt(t, fleettest.Postgres(t))
}

func openedAt(t testing.TB, address string) *DB {
	t.Helper()
	d, err := Open(t.Context(), address, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestHandedOver: a version belongs to the machine that made it, even if the machine's id was
// handed over twice and the first machine returns under another id. This holds in a database that
// was fed all along, in one that was fed afterwards, in the bucket, and in an audit.
func TestHandedOver(t *testing.T) {
	before, after := opened(t), opened(t)
	handedOver(t, before, after)
}

// TestBehindPgbouncer does the same as TestHandedOver through a pgbouncer, where each transaction
// may use another connection.
func TestBehindPgbouncer(t *testing.T) {
	direct, bounced := fleettest.Postgres(t), fleettest.Postgres(t)
	handedOver(t, openedAt(t, direct), openedAt(t, fleettest.Bouncer(t, bounced)))
}

func handedOver(t *testing.T, before, after *DB) {
	t.Helper()
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	wrote := map[string][]string{} // the paths that each machine wrote
	// The session of a version shows which machine made it, whatever the tables say.
	work := func(b *box, n int) {
		t.Helper()
		for i := range n {
			text := strings.Repeat("x\n", len(wrote[b.name])+i)
			wrote[b.name] = append(wrote[b.name], fmt.Sprint(b.write(t, store.Path(fmt.Sprintf("f%d", i%3)), b.name+"\n"+text, "s-"+b.name, "c").Path))
			b.send(t)
		}
		b.write(t, ".env", fmt.Sprint(b.name, len(wrote[b.name])), "s-"+b.name, "c") // the file is not sent, but its version has a number
		b.send(t)
		if _, err := b.feed(t.Context(), t, before); err != nil {
			t.Fatal(err)
		}
	}
	one := newBox(t, p, "agent1")
	one.r = secretive(t, one)
	work(one, 4)
	srv.Pass(remote.Lease)
	two := successor(t, one, "agent2")
	work(two, 3)
	srv.Pass(remote.Lease)
	three := successor(t, two, "agent3")
	work(three, 5)
	id := one.r.Head().Machine.ID
	if two.r.Head().Machine.ID != id || three.r.Head().Machine.ID != id {
		t.Fatal("the id was not handed over")
	}
	// The first machine comes back.
	one.write(t, "late", "x", "s-agent1", "c")
	wrote["agent1"] = append(wrote["agent1"], "late")
	if _, err := one.r.Send(t.Context()); !errors.Is(err, remote.ErrTaken) {
		t.Fatalf("it is not refused: %v", err)
	}
	one.add(t)
	one.r = secretive(t, one)
	work(one, 2)

	bucket, err := remote.Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	h, err := bucket.Head(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var writers []string
	for _, w := range h.Writers() {
		writers = append(writers, w.Name+" "+w.Root)
	}
	if want := []string{"agent1 /p/agent1", "agent2 /p/agent2", "agent3 /p/agent3"}; !slices.Equal(writers, want) {
		t.Errorf("the head names %q", writers)
	}
	if r, err := bucket.Fsck(t.Context(), true); err != nil || len(r.Problems) > 0 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
	if _, err := one.feed(t.Context(), t, after); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*DB{"before": before, "after": after} {
		total := 0
		for _, host := range []string{"agent1", "agent2", "agent3"} {
			n := 0
			err := d.Log(t.Context(), Query{Machine: host}, func(v Version) error {
				if n++; v.Machine != host || v.Session != "s-"+host {
					t.Errorf("%s: #%d of %s is attributed to %s, and was of %s", name, v.Seq, v.MachineID, v.Machine, v.Session)
				}
				return nil
			})
			if err != nil || n != len(wrote[host]) {
				t.Errorf("%s: %d versions of %s, not %d: %v", name, n, host, len(wrote[host]), err)
			}
			total += n
		}
		all := 0
		err := d.Log(t.Context(), Query{}, func(v Version) error {
			if all++; v.Session != "s-"+v.Machine {
				t.Errorf("%s: #%d of %s is attributed to %s, and was of %s", name, v.Seq, v.MachineID, v.Machine, v.Session)
			}
			return nil
		})
		if err != nil || all != total {
			t.Errorf("%s: %d versions in all, %d of the machines, %v", name, all, total, err)
		}
		var wrong int
		if err := d.pool.QueryRow(t.Context(), `select count(*) from changes where session <> 's-' || machine`).Scan(&wrong); err != nil || wrong > 0 {
			t.Errorf("%s: the view has %d wrong, %v", name, wrong, err)
		}
		for _, path := range []string{"f0", "f1", "f2"} {
			for _, host := range []string{"", "agent1", "agent2", "agent3"} {
				lines, err := d.Blame(t.Context(), p, bucket, Query{Path: path, Machine: host})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					if l.Session != "s-"+l.Machine {
						t.Errorf("%s: blame %s of %q tells #%d of %s of %s", name, path, host, l.Seq, l.Session, l.Machine)
					}
				}
				if first := lines[0]; host != "" && (first.Machine != host || string(first.Text) != host+"\n") {
					t.Errorf("%s: %s as %s has it begins with %q by %s", name, path, host, first.Text, first.Machine)
				}
			}
		}
		for _, q := range []Query{{}, {Machine: "agent1"}, {Machine: "agent3"}, {Path: "f1"}, {Session: "s-agent2"}, {Machine: id}} {
			var file bytes.Buffer
			if _, _, err := d.Export(t.Context(), q, time.Now(), &file); err != nil {
				t.Fatal(err)
			}
			against := NewAgainst(t.Context())
			against.Add(p, bucket)
			_, n, err := Verify(&file, against)
			if err = errors.Join(err, against.Missing()); err != nil || n == 0 || against.Versions != n {
				t.Errorf("%s: the audit of %+v: %d versions, %d compared, %v", name, q, n, against.Versions, err)
			}
		}
	}
}

// TestReader: a user who only queries needs only the right to read.
func TestReader(t *testing.T) {
	address := fleettest.Postgres(t)
	d := openedAt(t, address)
	srv := remotetest.New(t)
	b := newBox(t, at(t, srv, "app"), "one")
	b.write(t, "a.go", "a\n", "s", "c")
	b.send(t)
	if _, err := b.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"create role reader login", "grant select on all tables in schema public to reader"} {
		if _, err := d.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := openedAt(t, strings.Replace(address, "fleet@", "reader@", 1))
	bucket, err := remote.Dial(b.place)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := r.Log(t.Context(), Query{Path: "a.go"}, func(Version) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("log: %d versions, %v", n, err)
	}
	if lines, err := r.Blame(t.Context(), b.place, bucket, Query{Path: "a.go"}); err != nil || len(lines) != 1 {
		t.Errorf("blame: %d lines, %v", len(lines), err)
	}
	var out bytes.Buffer
	if _, n, err := r.Export(t.Context(), Query{}, time.Now(), &out); err != nil || n != 1 {
		t.Errorf("audit: %d versions, %v", n, err)
	}
	if _, err := r.Prune(t.Context(), time.Now()); err == nil {
		t.Error("it may drop what there is")
	}
}
