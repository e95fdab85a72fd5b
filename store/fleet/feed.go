package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// lockClass is the first half of the advisory locks on machines.
const lockClass = 0x63616368 // "cach"

// Fed tells what was added.
type Fed struct {
	Machines int // that write to the project
	Busy     int // of them, fed by another process meanwhile
	Segments int
	Versions int64
}

// Feed adds what the machines of a project have sent since the last time, at most `at
// once` of them side by side. A machine whose history cannot be read leaves the others
// alone; its problem is in the error, and in its row.
func (d *DB) Feed(ctx context.Context, p remote.Place, b *remote.Bucket, atOnce int) (f Fed, err error) {
	project, err := d.project(ctx, p)
	if err != nil {
		return f, err
	}
	all, err := b.Machines(ctx)
	if err != nil {
		return f, err
	}
	f.Machines = len(all)
	var mu sync.Mutex // guards f, problems
	var problems []error
	var g errgroup.Group
	g.SetLimit(max(1, atOnce))
	for _, m := range all {
		g.Go(func() error {
			one, busy, err := d.machine(ctx, project, b, m)
			mu.Lock()
			defer mu.Unlock()
			f.Segments += one.Segments
			f.Versions += one.Versions
			if busy {
				f.Busy++
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s (%s): %w", m.Called(), m.ID, err))
			}
			return nil
		})
	}
	_ = g.Wait() // what went wrong is in problems
	return f, errors.Join(problems...)
}

// place is a project's address without what only some machines need to reach it.
func place(p remote.Place) string {
	p.Region, p.CA, p.PathStyle = "", "", false
	return p.String()
}

func (d *DB) project(ctx context.Context, p remote.Place) (id int, err error) {
	const q = `with made as (insert into projects (place) values ($1) on conflict (place) do nothing returning id)
		select id from made union all select id from projects where place = $1 limit 1`
	for range 2 { // another process made it after this statement began
		if err = d.pool.QueryRow(ctx, q, place(p)).Scan(&id); !errors.Is(err, pgx.ErrNoRows) {
			break
		}
	}
	return id, err
}

// machine feeds one; busy: another process does.
func (d *DB) machine(ctx context.Context, project int, b *remote.Bucket, m remote.Machine) (f Fed, busy bool, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return f, false, err
	}
	defer conn.Release()
	var id int
	const enter = `insert into machines (project, machine, name, root, since) values ($1, $2, $3, $4, $5)
		on conflict (project, machine) do update set name = excluded.name, root = excluded.root returning id`
	if err := conn.QueryRow(ctx, enter, project, m.ID, plain(m.Called()), plain(m.Root), m.Since).Scan(&id); err != nil {
		return f, false, err
	}
	var mine bool
	if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1, $2)`, lockClass, id).Scan(&mine); err != nil || !mine {
		return f, !mine, err
	}
	defer func() {
		// A connection that is gone has no lock.
		_, _ = conn.Exec(context.WithoutCancel(ctx), `select pg_advisory_unlock($1, $2)`, lockClass, id)
	}()
	f, err = d.follow(ctx, conn.Conn(), id, b, m.ID)
	var problem *string
	if err != nil && ctx.Err() == nil {
		s := plain(err.Error())
		problem = &s
	}
	if ctx.Err() == nil {
		_, perr := conn.Exec(ctx, `update machines set problem = $2 where id = $1 and problem is distinct from $2`, id, problem)
		err = errors.Join(err, perr)
	}
	return f, false, err
}

// follow adds the segments that the database lacks.
func (d *DB) follow(ctx context.Context, c *pgx.Conn, id int, b *remote.Bucket, machine string) (f Fed, err error) {
	var known remote.Known
	var n, seq int64
	if err := c.QueryRow(ctx, `select segments, log, seq from machines where id = $1`, id).Scan(&n, &known.Log, &seq); err != nil {
		return f, err
	}
	known.N = uint64(n)
	h, err := b.Head(ctx, machine) // after what is known was read: it may not be older
	if errors.Is(err, remote.ErrMissing) && n == 0 {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	if h.Base != nil {
		if _, err := c.Exec(ctx, `update machines set base = $2, base_seq = $3 where id = $1 and base is null`, id, h.Base.Machine, int64(h.Base.Seq)); err != nil {
			return f, err
		}
	}
	err = b.Logs(ctx, h, known, uint64(seq), func(l remote.Log) error {
		if err := add(ctx, c, id, l); err != nil {
			return err
		}
		f.Segments++
		f.Versions += int64(len(l.Versions))
		return nil
	})
	if err == nil {
		_, err = c.Exec(ctx, `update machines set sent = $2 where id = $1`, id, h.Time)
	}
	return f, err
}

// errFed: another process has added the segment.
var errFed = errors.New("somebody else feeds this machine")

// add stores a segment and steps to it, or does nothing.
func add(ctx context.Context, c *pgx.Conn, id int, l remote.Log) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		seq := int64(0)
		if n := len(l.Versions); n > 0 {
			seq = int64(l.Versions[n-1].Seq)
		}
		step, err := tx.Exec(ctx, `update machines set segments = $2, log = $3, seq = greatest(seq, $4) where id = $1 and segments = $2 - 1`, id, int64(l.Segment.N), l.Segment.Log, seq)
		if err == nil && step.RowsAffected() == 0 {
			err = errFed
		}
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"versions"}, versionColumns, pgx.CopyFromSlice(len(l.Versions), func(i int) ([]any, error) {
			return row(id, l.Segment.N, l.Versions[i]), nil
		}))
		if err != nil {
			return err
		}
		var batch pgx.Batch
		batch.Queue(`insert into segments values ($1, $2, $3, $4, $5, $6, $7, $8)`, id, int64(l.Segment.N), l.Segment.Log, l.Segment.LogSize, l.Segment.Contents, l.Segment.ContentsSize, int64(l.Segment.Seq), l.Segment.Gen)
		for _, s := range l.Sessions {
			batch.Queue(`insert into sessions values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (machine, id) do update set
				client = excluded.client, cwd = excluded.cwd, branch = excluded.branch, started = excluded.started, last = excluded.last, ended = excluded.ended`,
				id, plain(string(s.ID)), plain(s.Client), plain(s.Cwd), plain(s.Branch), moment(s.Started), moment(s.Last), moment(s.Ended))
		}
		for _, p := range l.Prompts {
			batch.Queue(`insert into prompts values ($1, $2, $3, $4, $5) on conflict (machine, session, id) do update set time = excluded.time, text = excluded.text`,
				id, plain(string(p.Session)), plain(p.ID), moment(p.Time), plain(p.Text))
		}
		for _, a := range actions(l) {
			batch.Queue(`insert into actions as old values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (machine, id) do update set
				session = coalesce(nullif(excluded.session, ''), old.session), agent = coalesce(nullif(excluded.agent, ''), old.agent),
				prompt = coalesce(nullif(excluded.prompt, ''), old.prompt), tool = coalesce(nullif(excluded.tool, ''), old.tool),
				title = coalesce(nullif(excluded.title, ''), old.title), first = least(excluded.first, old.first),
				last = greatest(excluded.last, old.last), failed = excluded.failed or old.failed`,
				id, a.id, a.kind, a.session, a.agent, a.prompt, a.tool, a.title, moment(a.first), moment(a.last), a.failed)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
}

// moment is a time in ns since the epoch, 0 being none.
func moment(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	t := time.Unix(0, ns)
	return &t
}

// known is a text of which "" says that nothing is known.
func known(s string) *string {
	if s = plain(s); s == "" {
		return nil
	}
	return &s
}

var versionColumns = []string{"machine", "seq", "time", "op", "path", "path_bytes", "other", "blob", "size", "missing", "prev",
	"session", "agent", "prompt", "action", "class", "comm", "segment"}

// row is a version as the table has it.
func row(id int, segment uint64, v store.Version) []any {
	path := plain(string(v.Path))
	var raw, blob []byte
	if path != string(v.Path) {
		raw = []byte(v.Path)
	}
	if v.Blob != (store.Hash{}) {
		blob = v.Blob[:]
	}
	_, action := actionOf(v)
	return []any{id, int64(v.Seq), v.When(), opName(v.Op), path, raw, known(other(v)), blob, v.Stat.Size, known(v.NoContent), int64(v.Prev),
		known(string(v.Actor.Session)), known(v.Actor.Agent), known(v.Actor.Prompt), known(action), class(v.Class), known(v.Actor.Comm), int64(segment)}
}
