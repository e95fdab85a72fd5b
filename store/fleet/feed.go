package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// FeedResult describes what was added.
type FeedResult struct {
	Machines int // number of machines that write to the project
	Busy     int // number of machines that another process is feeding
	Problems int // number of machines whose history was not completely readable
	// Unlisted is the error if the bucket does not allow listing. Machines that are missing from
	// the list of machines are then not found.
	Unlisted error
	Segments int
	Versions int64
}

// Feed adds what the machines of a project have sent since the last time. It reads at most atOnce
// machines at a time. If one history is not readable, the problem is in the error and in the
// machine's row, and the other machines are still fed.
func (d *DB) Feed(ctx context.Context, p remote.Place, b *remote.Bucket, atOnce int) (f FeedResult, err error) {
	project, err := d.project(ctx, p)
	if err != nil {
		return f, err
	}
	all, missing, refused, err := b.AllMachines(ctx)
	if err != nil {
		return f, err
	}
	f.Unlisted = refused
	for _, id := range missing {
		all = append(all, remote.Machine{ID: id})
	}
	known, err := d.known(ctx, project)
	if err != nil {
		return f, err
	}
	f.Machines = len(all)
	var mu sync.Mutex // guards f, problems
	var problems []error
	var g errgroup.Group
	g.SetLimit(max(1, atOnce))
	for i, m := range all {
		var problem error
		if i >= len(all)-len(missing) {
			problem = remote.ErrUnlisted
		}
		g.Go(func() error {
			one, busy, err := d.machine(ctx, project, b, m, known[m.ID], problem)
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
	_ = g.Wait() // errors are in problems
	f.Problems = len(problems)
	return f, errors.Join(problems...)
}

// place returns a project's address without the parts that only some machines need to reach it.
func place(p remote.Place) string {
	p.Region, p.CA = "", ""
	p.PathStyle = false
	return p.String()
}

func (d *DB) project(ctx context.Context, p remote.Place) (id int, err error) {
	const q = `with made as (insert into projects (place) values ($1) on conflict (place) do nothing returning id)
		select id from made union all select id from projects where place = $1 limit 1`
	for range 2 { // another process may create the row after this statement has begun
		err = d.pool.QueryRow(ctx, q, place(p)).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			break
		}
	}
	return id, err
}

// fed describes how much of a machine's history is in the database.
type fed struct {
	id      int
	name    string
	root    string
	n, seq  int64
	log     string
	sent    *time.Time
	baseN   *int64
	problem *string
}

const fedColumns = `m.id, m.name, m.root, m.segments, m.seq, m.log, m.sent, m.base_n, m.problem`

func (f *fed) all() []any {
	return []any{&f.id, &f.name, &f.root, &f.n, &f.seq, &f.log, &f.sent, &f.baseN, &f.problem}
}

// known returns the machines of a project that are in the database.
func (d *DB) known(ctx context.Context, project int) (map[string]fed, error) {
	out := map[string]fed{}
	var f fed
	var machine string
	rows, _ := d.pool.Query(ctx, `select m.machine, `+fedColumns+` from machines m where m.project = $1`, project)
	_, err := pgx.ForEachRow(rows, append([]any{&machine}, f.all()...), func() error { out[machine] = f; return nil })
	return out, err
}

// machine feeds one machine. busy is true if another process is feeding it. problem is an error
// that the caller already found with the machine, or nil.
func (d *DB) machine(ctx context.Context, project int, b *remote.Bucket, m remote.Machine, was fed, problem error) (f FeedResult, busy bool, err error) {
	if was.id == 0 {
		const enter = `insert into machines as m (project, machine, name, root, since) values ($1, $2, $3, $4, $5)
			on conflict (project, machine) do update set name = m.name returning ` + fedColumns
		if err := d.pool.QueryRow(ctx, enter, project, m.ID, plain(m.Called()), plain(m.Root), m.Since).Scan(was.all()...); err != nil {
			return f, false, err
		}
	}
	h, err := b.Head(ctx, m.ID)
	switch {
	case errors.Is(err, remote.ErrMissing) && was.n == 0:
		err = nil
	case err == nil:
		f, busy, err = d.follow(ctx, b, h, &was)
	}
	if busy || ctx.Err() != nil {
		return f, busy, errors.Join(err, ctx.Err())
	}
	err = errors.Join(problem, err)
	var text *string
	if err != nil {
		s := plain(err.Error())
		text = &s
	}
	if (text == nil) != (was.problem == nil) || text != nil && *text != *was.problem {
		_, perr := d.pool.Exec(ctx, `update machines set problem = $2 where id = $1`, was.id, text)
		err = errors.Join(err, perr)
	}
	return f, false, err
}

// lease is how long a process that feeds a machine excludes others after its last step. The lease
// only saves work. Each segment is added exactly once even without it.
const lease = "1 minute"

// follow adds the segments that the database lacks.
func (d *DB) follow(ctx context.Context, b *remote.Bucket, h remote.Head, was *fed) (f FeedResult, busy bool, err error) {
	named := was.name == plain(h.Machine.Called()) && was.root == plain(h.Machine.Root)
	based := h.Base == nil || was.baseN != nil
	same := h.N == uint64(was.n) && h.Log == was.log && named && based
	if same && was.sent != nil && was.problem == nil {
		return f, false, nil
	}
	me := rand.Text()
	defer func() {
		// Release the lease even if it is unknown whether the next statement took it. If the
		// release fails, the lease expires.
		_, _ = d.pool.Exec(context.WithoutCancel(ctx), `update machines set fed_by = null, fed_until = null where id = $1 and fed_by = $2`, was.id, me)
	}()
	err = d.pool.QueryRow(ctx, `update machines m set fed_by = $2, fed_until = now() + $3::interval
		where id = $1 and (fed_until is null or fed_until < now()) returning `+fedColumns, was.id, me, lease).Scan(was.all()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, true, nil
	}
	if err != nil {
		return f, false, err
	}
	if uint64(was.n) > h.N { // another process has read further
		h, err = b.Head(ctx, h.Machine.ID)
		if err != nil {
			return f, false, err
		}
	}
	if h.Base != nil {
		if _, err := d.pool.Exec(ctx, `update machines set base = $2, base_seq = $3, base_n = $4 where id = $1 and base_n is null`, was.id, h.Base.Machine, int64(h.Base.Seq), int64(h.Base.N)); err != nil {
			return f, false, err
		}
	}
	authors := d.authors(ctx, was.id, h)
	if authors != nil && !errors.Is(authors, errAuthors) {
		return f, false, authors
	}
	err = b.Logs(ctx, h, remote.Known{N: uint64(was.n), Log: was.log}, uint64(was.seq), func(l remote.Log) error {
		if err := d.add(ctx, was.id, l); err != nil {
			return err
		}
		f.Segments++
		f.Versions += int64(len(l.Versions))
		return nil
	})
	if errors.Is(err, errFed) {
		return f, true, nil
	}
	if err == nil {
		_, err = d.pool.Exec(ctx, `update machines set sent = $2, name = $3, root = $4 where id = $1`, was.id, h.Time, plain(h.Machine.Called()), plain(h.Machine.Root))
	}
	return f, false, errors.Join(authors, err)
}

// errFed means that another process has already added the segment.
var errFed = errors.New("another process feeds this machine")

// add stores a segment and advances the machine's row, in one transaction.
func (d *DB) add(ctx context.Context, id int, l remote.Log) error {
	err := d.tables(ctx, l.Versions)
	if err == nil {
		err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error { return addTo(ctx, tx, id, l) })
	}
	var why *pgconn.PgError
	if errors.As(err, &why) && why.Code == noPartition { // another process dropped the table of a day
		d.days.Clear()
	}
	return err
}

// noPartition is the server's error code for a row without a partition.
const noPartition = "23514"

// tables creates the tables for the days of the versions.
func (d *DB) tables(ctx context.Context, all []store.Version) error {
	for _, v := range all {
		day := v.When().UTC().Truncate(24 * time.Hour)
		if _, there := d.days.Load(day); there {
			continue
		}
		if _, err := d.pool.Exec(ctx, `select versions_day($1::date)`, day.Format(time.DateOnly)); err != nil {
			return err
		}
		d.days.Store(day, true)
	}
	return nil
}

func addTo(ctx context.Context, tx pgx.Tx, id int, l remote.Log) error {
	seq := int64(0)
	var last *time.Time
	for _, v := range l.Versions {
		seq = max(seq, int64(v.Seq))
		if t := v.When(); last == nil || t.After(*last) {
			last = &t
		}
	}
	// Rows lost in a crash of the server are added again.
	if _, err := tx.Exec(ctx, `set local synchronous_commit = off`); err != nil {
		return err
	}
	step, err := tx.Exec(ctx, `update machines set segments = $2, log = $3, seq = greatest(seq, $4), fed_until = now() + $5::interval where id = $1 and segments = $2 - 1`,
		id, int64(l.Segment.N), l.Segment.Log, seq, lease)
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
	batch.Queue(`insert into segments (machine, n, log, log_size, contents, contents_size, seq, gen, last) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		id, int64(l.Segment.N), l.Segment.Log, l.Segment.LogSize, l.Segment.Contents, l.Segment.ContentsSize, int64(l.Segment.Seq), l.Segment.Gen, last)
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
}

// moment converts a time in ns since the epoch; 0 becomes nil.
func moment(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	t := time.Unix(0, ns)
	return &t
}

// orNull converts a text; "" becomes nil.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

var versionColumns = []string{"machine", "seq", "time", "op", "path", "path_bytes", "other", "blob", "size", "missing", "prev",
	"session", "agent", "prompt", "action", "class", "comm", "segment"}

// versionOf returns a version as in the tables, without the columns of other tables: the names of
// machine and project, and the title of the action.
func versionOf(machine string, segment uint64, v store.Version) Version {
	_, action := actionOf(v)
	out := Version{
		Time: v.When().UTC().Truncate(time.Microsecond), MachineID: machine, Seq: int64(v.Seq), Op: onwire.OpName(v.Op), Path: plain(string(v.Path)), Other: plain(otherPath(v)),
		Size: v.Stat.Size, Missing: plain(v.NoContent), Session: plain(string(v.Actor.Session)), Agent: plain(v.Actor.Agent), Prompt: plain(v.Actor.Prompt),
		Comm: plain(v.Actor.Comm), prev: int64(v.Prev), segment: int64(segment), action: plain(action),
	}
	if out.Path != string(v.Path) {
		out.PathBytes = []byte(v.Path)
	}
	if v.Blob != (store.Hash{}) {
		out.Blob = v.Blob[:]
	}
	return out
}

// row returns the column values of a version.
func row(id int, segment uint64, version store.Version) []any {
	v := versionOf("", segment, version)
	return []any{id, v.Seq, v.Time, v.Op, v.Path, v.PathBytes, orNull(v.Other), v.Blob, v.Size, orNull(v.Missing), v.prev,
		orNull(v.Session), orNull(v.Agent), orNull(v.Prompt), orNull(v.action), class(version.Class), orNull(v.Comm), v.segment}
}
