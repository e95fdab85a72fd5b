package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Query selects versions. The zero value is all that was done, but for what scans found
// and what is excluded from the histories.
type Query struct {
	Project      string    // its address, or the end of it
	Machine      string    // a host's name, an id or its beginning
	Path         string    // a file, or a directory with all below it
	Session      string    // an id, or its beginning
	Since, Until time.Time // zero: no bound
	Limit        int       // 0: none
}

// Version is one, as the tables have it.
type Version struct {
	Time      time.Time `json:"time"`
	Project   string    `json:"project"`
	Machine   string    `json:"machine"`
	MachineID string    `json:"machine_id"`
	Seq       int64     `json:"seq"`
	Op        string    `json:"op"`
	Path      string    `json:"path"`
	PathBytes []byte    `json:"path_bytes,omitempty"` // where the path is no UTF-8
	Other     string    `json:"other,omitempty"`
	Blob      []byte    `json:"-"`
	Size      int64     `json:"size"`
	Missing   string    `json:"missing,omitempty"`
	Session   string    `json:"session,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Action    string    `json:"action,omitempty"` // the command, in words
	Comm      string    `json:"comm,omitempty"`

	machine, prev, segment int64
}

// selected looks an action up for each version: the planner would rather read all actions,
// of which an hour of a large fleet has one in a thousand.
const selected = `select v.time, p.place, m.name, m.machine, v.seq, v.op, v.path, v.path_bytes, coalesce(v.other, ''), v.blob, v.size,
	coalesce(v.missing, ''), coalesce(v.session, ''), coalesce(v.agent, ''), coalesce(v.prompt, ''), coalesce(a.tool, ''),
	coalesce(a.title, ''), coalesce(v.comm, ''), v.machine, v.prev, v.segment
	from versions v join machines m on m.id = v.machine join projects p on p.id = m.project
	left join lateral (select tool, title from actions where machine = v.machine and id = v.action limit 1) a on true`

func scanned(rows pgx.CollectableRow) (v Version, err error) {
	err = rows.Scan(&v.Time, &v.Project, &v.Machine, &v.MachineID, &v.Seq, &v.Op, &v.Path, &v.PathBytes, &v.Other, &v.Blob, &v.Size,
		&v.Missing, &v.Session, &v.Agent, &v.Prompt, &v.Tool, &v.Action, &v.Comm, &v.machine, &v.prev, &v.segment)
	return v, err
}

// where is the condition of a query, and its values.
func (q Query) where(machines []int64) (string, []any) {
	parts := []string{"v.op <> 'baseline'", "v.class is distinct from 'excluded'"}
	var vals []any
	with := func(format string, val any) {
		vals = append(vals, val)
		parts = append(parts, strings.ReplaceAll(format, "?", fmt.Sprintf("$%d", len(vals))))
	}
	if machines != nil {
		with("v.machine = any(?)", machines)
	}
	if path := strings.Trim(q.Path, "/"); path != "" {
		with(`(v.path = ? or v.path like replace(replace(replace(?, '\', '\\'), '%', '\%'), '_', '\_') || '/%')`, path)
	}
	if q.Session != "" {
		with(`starts_with(v.session, ?)`, q.Session)
	}
	if !q.Since.IsZero() {
		with("v.time >= ?", q.Since)
	}
	if !q.Until.IsZero() {
		with("v.time <= ?", q.Until)
	}
	return strings.Join(parts, " and "), vals
}

// machines are those that a query means; nil: all.
func (d *DB) machines(ctx context.Context, q Query) ([]int64, error) {
	if q.Project == "" && q.Machine == "" {
		return nil, nil
	}
	const find = `select m.id from machines m join projects p on p.id = m.project
		where ($1 = '' or p.place = $1 or right(split_part(p.place, '?', 1), length($1) + 1) = '/' || $1)
		and ($2 = '' or m.name = $2 or m.machine = $2 or length($2) >= 6 and starts_with(m.machine, $2))`
	rows, err := d.pool.Query(ctx, find, q.Project, q.Machine)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%w: %s", ErrUnknown, strings.TrimSpace(q.Machine+" "+q.Project))
	}
	return ids, err
}

// Log passes the versions that a query selects, the newest first.
func (d *DB) Log(ctx context.Context, q Query, fn func(Version) error) error {
	ids, err := d.machines(ctx, q)
	if err != nil {
		return err
	}
	return each(ctx, d.pool, q, ids, "desc", fn)
}

// asked is a connection, a pool of them, or a transaction.
type asked interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}

// each passes the versions that a query selects of machines by time.
func each(ctx context.Context, db asked, q Query, machines []int64, order string, fn func(Version) error) error {
	cond, vals := q.where(machines)
	sql := fmt.Sprintf("%s where %s order by v.time %s, v.machine %[3]s, v.seq %[3]s", selected, cond, order)
	if q.Limit > 0 {
		sql += fmt.Sprintf(" limit %d", q.Limit)
	}
	rows, err := db.Query(ctx, sql, vals...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scanned(rows)
		if err == nil {
			err = fn(v)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}
