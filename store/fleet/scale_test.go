package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/store"
	"cachebro/store/portable"
	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
)

// TestFleetScale: each query that a person makes returns within a second from a large database. By
// default, the database is so small that the test takes seconds. CACHEBRO_FLEET_VERSIONS=10000000
// tests ten million versions, which takes 4 GB and half an hour. The rows are written by the same
// code as real rows.
func TestFleetScale(t *testing.T) {
	machines, each := 20, 500
	if s := os.Getenv("CACHEBRO_FLEET_VERSIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		machines, each = 1000, n/1000
	}
	address := fleettest.Postgres(t)
	d := openedAt(t, address)
	p, err := remote.ParsePlace("s3://fleet/app", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	project, err := d.project(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	begun, now := time.Now(), time.Now()
	var wg sync.WaitGroup
	next := make(chan int) // closed below
	for range 3 {
		wg.Go(func() {
			for m := range next {
				if err := d.invent(t.Context(), project, m, each, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for m := range machines {
		next <- m
	}
	close(next)
	wg.Wait()
	if t.Failed() {
		return
	}
	all := machines * each
	t.Logf("%d machines, %d versions: written in %s", machines, all, time.Since(begun).Round(time.Second))
	if _, err := d.pool.Exec(t.Context(), `analyze`); err != nil {
		t.Fatal(err)
	}
	var size string
	const sizes = `select string_agg(name || ' ' || pg_size_pretty(size), ', ' order by size desc) from
		(select regexp_replace(relname, '_[0-9]{8}$', '') as name, sum(pg_total_relation_size(oid)) as size
			from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace group by 1) s`
	if err := d.pool.QueryRow(t.Context(), sizes).Scan(&size); err != nil {
		t.Fatal(err)
	}
	t.Log(size)
	d = openedAt(t, fleettest.Bouncer(t, address)) // the queries go through a pgbouncer, which pools connections by transaction
	hour := now.Add(-time.Hour)
	for _, q := range []struct {
		name string
		few  int // 1: it returns few rows without a limit
		Query
	}{
		{"log --machine all --since 1h, the newest 50", 0, Query{Since: hour, Limit: 50}},
		{"log --machine all --since 1h, all of them", 0, Query{Since: hour}},
		{"log --machine host-7 --since 1h", 1, Query{Machine: "host-7", Since: hour}},
		{"log --path src/d3/f3.go, the newest 50", 0, Query{Path: "src/d3/f3.go", Limit: 50}},
		{"log --path src/d3 --since 1h", 1, Query{Path: "src/d3", Since: hour}},
		{"log --session s-7-0, the newest 50", 0, Query{Session: "s-7-0", Limit: 50}},
	} {
		best, n := time.Hour, 0
		for range 3 {
			n = 0
			start := time.Now()
			if err := d.Log(t.Context(), q.Query, func(Version) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < best {
				best = took
			}
		}
		t.Logf("%-45s %8d versions in %s", q.name, n, best.Round(time.Millisecond))
		if n == 0 {
			t.Errorf("%s finds nothing", q.name)
		}
		if best > time.Second && q.Limit+q.few > 0 && machines == 1000 {
			t.Errorf("%s takes %s", q.name, best)
		}
		in, err := d.scope(t.Context(), q.Query)
		if err != nil {
			t.Fatal(err)
		}
		sql, vals := q.statement(in, "desc")
		d.explain(t, q.name, sql, vals...)
	}
	for _, sql := range asIs(t) {
		d.explain(t, sql, sql)
	}
}

// explain prints the plan of a statement, and its duration.
func (d *DB) explain(t *testing.T, name, sql string, vals ...any) {
	t.Helper()
	var plan []string
	for range 2 { // twice, so that the caches are filled
		rows, _ := d.pool.Query(t.Context(), "explain (analyze, costs off, timing off) "+sql, vals...)
		var err error
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	t.Logf("%s\n\t%s", name, strings.Join(plan, "\n\t"))
}

// asIs returns the queries of doc/fleet.md, with a path that this test has.
func asIs(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("../../doc/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, block := range strings.Split(string(doc), "```sql\n")[1:] {
		sql, _, _ := strings.Cut(block, ";\n```")
		if strings.HasPrefix(sql, "select") {
			out = append(out, strings.ReplaceAll(sql, "src/main.go", "src/d3/f3.go"))
		}
	}
	if len(out) != 3 {
		t.Fatalf("%d queries in the document", len(out))
	}
	return out
}

// invent writes a machine's history of the last ten days, in segments of 500.
func (d *DB) invent(ctx context.Context, project, m, n int, now time.Time) error {
	var id int
	if err := d.pool.QueryRow(ctx, `insert into machines (project, machine, name, root, since) values ($1, $2, $3, '/p', $4) returning id`,
		project, fmt.Sprintf("%032x", m), fmt.Sprintf("host-%d", m), now).Scan(&id); err != nil {
		return err
	}
	if err := d.authors(ctx, id, remote.Head{Machine: remote.Machine{Name: fmt.Sprintf("host-%d", m), Root: "/p"}}); err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(uint64(m), 1))
	step := 10 * 24 * time.Hour / time.Duration(n)
	var l remote.Log
	for i := range n {
		call := fmt.Sprintf("toolu_%d_%d", m, i/4)
		session := fmt.Sprintf("s-%d-%d", m, i/400)
		v := store.Version{Seq: uint64(i + 1), Op: store.OpWrite, Time: now.Add(step * time.Duration(i-n+1)).UnixNano(), Prev: uint64(max(0, i-100)),
			Path: store.Path(fmt.Sprintf("src/d%d/f%d.go", rnd.IntN(40), rnd.IntN(60))), Stat: store.Stat{Size: int64(rnd.IntN(9000))},
			Actor: store.Actor{PID: 7, Start: 7, Comm: "bash", Session: store.SessionID(session), Prompt: fmt.Sprintf("p-%d-%d", m, i/40), ToolCall: call, Tool: "Bash"}}
		v.Blob = sha256.Sum256(binary.BigEndian.AppendUint64(nil, rnd.Uint64()))
		l.Versions = append(l.Versions, v)
		if i%4 == 0 {
			l.ToolCalls = append(l.ToolCalls, store.ToolCall{ID: call, Session: store.SessionID(session), Tool: "Bash", Title: "go test ./...", Begin: v.Time, End: v.Time + 1, Failed: i%32 == 0})
		}
		if i%400 == 0 {
			l.Sessions = append(l.Sessions, store.Session{ID: store.SessionID(session), Client: "claude", Started: v.Time, Last: v.Time})
		}
		if len(l.Versions) < 500 && i < n-1 {
			continue
		}
		l.Segment.N++
		h := sha256.Sum256(fmt.Appendf(nil, "%d %d", m, l.Segment.N))
		l.Segment.Log, l.Segment.LogSize, l.Segment.Seq = hex.EncodeToString(h[:]), 20000, v.Seq
		if err := d.add(ctx, id, l); err != nil {
			return err
		}
		l = remote.Log{Segment: l.Segment, Records: portable.Records{}}
	}
	return nil
}
