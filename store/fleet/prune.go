package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pruned describes what Prune has dropped.
type Pruned struct {
	Days  []string  // names of the tables
	Since time.Time // versions since this time are still in the database
}

// keptSince returns the time before which versions were dropped from the database, or the zero time
// if none were.
func keptSince(ctx context.Context, db querier) (time.Time, error) {
	rows, _ := db.Query(ctx, `select since from retention`)
	since, err := pgx.CollectOneRow(rows, pgx.RowTo[time.Time])
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return since.UTC(), err
}

// Prune drops the days that ended before a time, according to the machines' clocks. It also drops
// all rows that only these days needed. It leaves the buckets alone.
func (d *DB) Prune(ctx context.Context, before time.Time) (p Pruned, err error) {
	p.Since = before.UTC().Truncate(24 * time.Hour)
	rows, _ := d.pool.Query(ctx, `select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'versions'::regclass and c.relname ~ '^versions_[0-9]{8}$' and c.relname < $1 order by 1`, "versions_"+p.Since.Format("20060102"))
	days, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return p, err
	}
	// Record the time first. Otherwise dropped versions could look as if they had never existed.
	_, err = d.pool.Exec(ctx, `insert into retention (since) values ($1) on conflict (one) do update set since = greatest(retention.since, excluded.since)`, p.Since)
	if err != nil {
		return p, err
	}
	for _, day := range days {
		if err := d.exec(ctx, "drop table "+pgx.Identifier{day}.Sanitize()); err != nil {
			return p, fmt.Errorf("drop %s: %w", day, err)
		}
		p.Days = append(p.Days, day)
	}
	d.days.Clear()
	for _, sql := range []string{
		`delete from versions_before where time < $1`,
		`delete from segments where last < $1`,
		`delete from actions where coalesce(last, first) < $1`,
		`delete from prompts where time < $1`,
		`delete from sessions where coalesce(ended, last) < $1`,
	} {
		if _, err := d.pool.Exec(ctx, sql, p.Since); err != nil {
			return p, err
		}
	}
	return p, nil
}

// exec runs a statement that needs exclusive access to a table. It gives up soon, because all later
// statements queue behind it.
func (d *DB) exec(ctx context.Context, sql string) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `set local lock_timeout = '10s'`)
		if err == nil {
			_, err = tx.Exec(ctx, sql)
		}
		return err
	})
}
