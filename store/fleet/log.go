package fleet

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Query selects versions. The zero value selects all versions, except those made by scans and those
// of excluded paths.
type Query struct {
	Project      string    // the project's address, or its end
	Machine      string    // host name, or the ID or its beginning
	Path         string    // a file, or a directory with its subtree
	Session      string    // session ID or its beginning
	Since, Until time.Time // zero: no bound
	Limit        int       // 0: no limit
}

// Version is a version as in the tables.
type Version struct {
	Time      time.Time `json:"time"`
	Project   string    `json:"project"`
	Machine   string    `json:"machine"`
	MachineID string    `json:"machine_id"`
	Seq       int64     `json:"seq"`
	Op        string    `json:"op"`
	Path      string    `json:"path"`
	PathBytes []byte    `json:"path_bytes,omitempty"` // set if the path is not UTF-8
	Other     string    `json:"other,omitempty"`
	Blob      []byte    `json:"-"`
	Size      int64     `json:"size"`
	Missing   string    `json:"missing,omitempty"`
	Session   string    `json:"session,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Action    string    `json:"action,omitempty"` // the command, for display
	Comm      string    `json:"comm,omitempty"`

	machine, prev, segment int64
	action                 string // ID of the action; not read from the tables
}

// selected looks up the action of each version separately. With a plain join, the planner would
// read all actions. A query for an hour of a large fleet needs only one in a thousand.
const selected = `select v.time, p.place, coalesce(w.name, '?'), m.machine, v.seq, v.op, v.path, v.path_bytes, coalesce(v.other, ''), v.blob, v.size,
	coalesce(v.missing, ''), coalesce(v.session, ''), coalesce(v.agent, ''), coalesce(v.prompt, ''), coalesce(a.tool, ''),
	coalesce(a.title, ''), coalesce(v.comm, ''), v.machine, v.prev, v.segment
	from versions v join machines m on m.id = v.machine join projects p on p.id = m.project
	left join writers w on w.machine = v.machine and v.seq between w.first and w.last
	left join lateral (select tool, title from actions where machine = v.machine and id = v.action limit 1) a on true`

func scanned(rows pgx.CollectableRow) (v Version, err error) {
	err = rows.Scan(&v.Time, &v.Project, &v.Machine, &v.MachineID, &v.Seq, &v.Op, &v.Path, &v.PathBytes, &v.Other, &v.Blob, &v.Size,
		&v.Missing, &v.Session, &v.Agent, &v.Prompt, &v.Tool, &v.Action, &v.Comm, &v.machine, &v.prev, &v.segment)
	return v, err
}

// scope is the result of looking up a query's machine and path. machines and writers are nil if all
// are selected.
type scope struct {
	machines, writers []int64
	file, dir         bool // whether the path of the query is known as a file and as a directory
}

// where returns the condition of a query and its values.
func (q Query) where(in scope) (string, []any) {
	parts := []string{"v.op <> 'baseline'", "v.class is distinct from 'excluded'"}
	var vals []any
	with := func(format string, some ...any) {
		for _, val := range some {
			vals = append(vals, val)
			format = strings.Replace(format, "?", fmt.Sprintf("$%d", len(vals)), 1)
		}
		parts = append(parts, format)
	}
	if in.machines != nil {
		with("v.machine = any(?)", in.machines)
	}
	if in.writers != nil {
		with("w.id = any(?)", in.writers)
	}
	switch path := q.path(); {
	case path == "":
	case in.file && in.dir:
		with("(v.path = ? or v.path >= ? and v.path < ?)", path, path+"/", path+"0")
	case in.dir:
		with("v.path >= ? and v.path < ?", path+"/", path+"0")
	default:
		with("v.path = ?", path)
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

func (q Query) path() string { return strings.Trim(path.Clean("/"+q.Path), "/") }

// scope looks up the machine and path of a query.
func (d *DB) scope(ctx context.Context, q Query) (in scope, err error) {
	if q.Project != "" || q.Machine != "" {
		in.machines, in.writers, err = d.machines(ctx, q)
		if err != nil {
			return in, err
		}
	}
	if path := q.path(); path != "" {
		// Find out whether the path is a file or a directory. An index returns the versions of one
		// file in order, but it cannot do so for a condition that also covers a directory. Paths in
		// a directory sort after "DIR/" and before "DIR0".
		const look = `select exists (select from versions where path = $1), exists (select from versions where path >= $1 || '/' and path < $1 || '0')`
		err = d.pool.QueryRow(ctx, look, path).Scan(&in.file, &in.dir)
	}
	return in, err
}

// machines returns the machines of a query, and their writers if the query names a machine.
func (d *DB) machines(ctx context.Context, q Query) (machines, writers []int64, err error) {
	writers = []int64{}
	const find = `select m.id, w.id from machines m join projects p on p.id = m.project left join writers w on w.machine = m.id
		where ($1 = '' or p.place = $1 or right(split_part(p.place, '?', 1), length($1) + 1) = '/' || $1)
		and ($2 = '' or coalesce(w.name, m.name) = $2 or m.machine = $2 or length($2) >= 6 and starts_with(m.machine, $2))`
	rows, _ := d.pool.Query(ctx, find, q.Project, q.Machine)
	var machine int64
	var writer *int64 // nil: the machine has sent nothing
	_, err = pgx.ForEachRow(rows, []any{&machine, &writer}, func() error {
		if !slices.Contains(machines, machine) {
			machines = append(machines, machine)
		}
		if writer != nil {
			writers = append(writers, *writer)
		}
		return nil
	})
	if err == nil && len(machines) == 0 {
		err = fmt.Errorf("%w: %s", ErrUnknown, strings.TrimSpace(q.Machine+" "+q.Project))
	}
	if q.Machine == "" {
		writers = nil
	}
	return machines, writers, err
}

// Log calls fn with the versions that a query selects, newest first.
func (d *DB) Log(ctx context.Context, q Query, fn func(Version) error) error {
	in, err := d.scope(ctx, q)
	if err != nil {
		return err
	}
	return each(ctx, d.pool, q, in, "desc", fn)
}

// querier is a connection, a pool of connections, or a transaction.
type querier interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}

// statement returns the SQL that selects the versions of a query by time.
func (q Query) statement(in scope, order string) (sql string, vals []any) {
	cond, vals := q.where(in)
	sql = fmt.Sprintf("%s where %s order by v.time %s, v.machine %[3]s, v.seq %[3]s", selected, cond, order)
	if q.Limit > 0 {
		sql += fmt.Sprintf(" limit %d", q.Limit)
	}
	return sql, vals
}

// each calls fn with the versions that a query selects, ordered by time.
func each(ctx context.Context, db querier, q Query, in scope, order string, fn func(Version) error) error {
	sql, vals := q.statement(in, order)
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
