package fleet

import (
	"database/sql"
	"io/fs"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// TestFirstTables: a database with the tables of the first version keeps its data when it is
// migrated, and when it is migrated back. The days and writers are derived from the data.
func TestFirstTables(t *testing.T) {
	address := fleettest.Postgres(t)
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err == nil {
		_, err = p.UpTo(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`insert into projects (place) values ('s3://b/app')`,
		`insert into machines (project, machine, name, root, since, segments, seq) values (1, repeat('0', 32), 'agent1', '/p', now(), 1, 3)`,
		`insert into segments values (1, 1, repeat('1', 64), 9, '', 0, 3, 0)`,
		`insert into versions (machine, seq, time, op, path, size, prev, session, segment) values
			(1, 1, '1971-05-05 12:00+00', 'write', 'old', 1, 0, 's', 1), (1, 2, '2026-05-01 23:59:59+00', 'write', 'a/b', 1, 0, 's', 1),
			(1, 3, '2026-05-02 00:00:00+00', 'write', 'a/b', 1, 2, 's', 1), (1, 4, '2150-01-01 00:00:00+00', 'write', 'late', 1, 2, 's', 1)`,
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	d := openedAt(t, address)
	count := func(q Query, want int) {
		t.Helper()
		n := 0
		if err := d.Log(t.Context(), q, func(v Version) error {
			if n++; v.Machine != "agent1" {
				t.Errorf("#%d is attributed to %s", v.Seq, v.Machine)
			}
			return nil
		}); err != nil || n != want {
			t.Errorf("%+v: %d versions, not %d: %v", q, n, want, err)
		}
	}
	count(Query{}, 4)
	count(Query{Path: "a", Machine: "agent1"}, 2)
	pruned, err := d.Prune(t.Context(), time.Date(2026, 5, 2, 13, 0, 0, 0, time.UTC))
	if err != nil || len(pruned.Days) != 1 || pruned.Days[0] != "versions_20260501" {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	count(Query{}, 2)
	if _, err := p.DownTo(t.Context(), 1); err != nil {
		t.Fatalf("back: %v", err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), `select count(*) from changes where machine = 'agent1'`).Scan(&n); err != nil || n != 2 {
		t.Errorf("back: %d versions, %v", n, err)
	}
}
