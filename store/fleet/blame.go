package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/cache"
	"cachebro/store/leaf/text"
	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
)

// Line is a line of a file with the version that wrote it. If the version has no number, the line
// is older than the versions in the database.
type Line struct {
	Text []byte
	Version
}

// ErrNoText means that the file's text is not available.
var ErrNoText = errors.New("the bucket has no text of the file")

// maxContents limits the bytes of contents held in memory during the comparison, and a single
// content to half of that.
const maxContents = 256 << 20

// Blame returns who wrote each line of a project's file, on any machine. It reads the file on
// q.Machine or, if that is "", on the machine that wrote it last. If another machine had the same
// content earlier at the same path, the content is assumed to come from there, by a pull or a copy.
// Its lines are then attributed to that machine.
func (d *DB) Blame(ctx context.Context, p remote.Place, b *remote.Bucket, q Query) ([]Line, error) {
	q.Project = place(p)
	ids, writers, err := d.machines(ctx, q)
	if err != nil {
		return nil, err
	}
	all, _, err := d.machines(ctx, Query{Project: q.Project})
	if err != nil {
		return nil, err
	}
	kept, err := keptSince(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	w := &walk{ctx: ctx, d: d, b: b, machines: all, kept: kept, been: map[[2]int64]bool{}, contents: cache.New[store.Hash](maxContents, func(b []byte) int { return len(b) })}
	v, ok, err := w.newest(q, ids, writers)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoText, q.Path)
	}
	return w.lines(v)
}

// walk is the state of a walk back through the versions of a file.
type walk struct {
	ctx      context.Context
	d        *DB
	b        *remote.Bucket
	machines []int64           // all machines of the project
	kept     time.Time         // Prune may have dropped older versions; zero: it never ran
	been     map[[2]int64]bool // versions that origin has returned
	contents *cache.Cache[store.Hash, []byte]
}

// newest returns the last version of a file. On a named machine this is the last one in that
// machine's order, otherwise the last one by time on all machines.
func (w *walk) newest(q Query, ids, writers []int64) (v Version, ok bool, err error) {
	if writers == nil {
		return w.one(`v.path = $1 and v.blob is not null and v.machine = any($2) order by v.time desc, v.seq desc`, q.path(), ids)
	}
	for _, id := range ids {
		last, found, err := w.one(`v.path = $1 and v.blob is not null and v.machine = $2 and w.id = any($3) order by v.seq desc`, q.path(), id, writers)
		if err != nil {
			return v, false, err
		}
		if found && (!ok || last.Time.After(v.Time)) {
			v, ok = last, true
		}
	}
	return v, ok, nil
}

func (w *walk) one(cond string, vals ...any) (v Version, ok bool, err error) {
	rows, err := w.d.pool.Query(w.ctx, selected+" where "+cond+" limit 1", vals...)
	if err != nil {
		return v, false, err
	}
	v, err = pgx.CollectOneRow(rows, scanned)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, err
}

// lines attributes the lines of version v. It goes back through the versions and tracks the
// positions of the lines that are not yet attributed.
func (w *walk) lines(v Version) ([]Line, error) {
	now, err := w.content(v)
	if err != nil {
		return nil, err
	}
	if text.Binary(now) {
		return nil, fmt.Errorf("%w: %q is not a text file", ErrNoText, v.Path)
	}
	var out []Line
	var left []int // for each line of now, its index in out; -1: already attributed
	for i, l := range diff.Compare(nil, now).New {
		out = append(out, Line{Text: l})
		left = append(left, i)
	}
	for slices.ContainsFunc(left, func(i int) bool { return i >= 0 }) {
		v, err = w.origin(v)
		if err != nil {
			return nil, err
		}
		was, before, ok, err := w.before(v)
		if errors.Is(err, errDropped) { // the authors of the remaining lines are unknown
			break
		}
		if err != nil {
			return nil, err
		}
		var sc = diff.Compare(nil, now)
		if ok {
			sc = diff.Compare(before, now)
		}
		next := make([]int, 0, len(left))
		from := 0
		for _, e := range sc.Edits {
			next = append(next, left[from:e.NewFrom]...)
			for _, i := range left[e.NewFrom:e.NewTo] {
				if i >= 0 {
					out[i].Version = v
				}
			}
			for range e.OldTo - e.OldFrom {
				next = append(next, -1)
			}
			from = e.NewTo
		}
		left = append(next, left[from:]...)
		now, v = before, was
		if !ok {
			break
		}
	}
	return out, nil
}

// origin returns the version in which a version's content first appeared at this path. It returns
// each version only once.
func (w *walk) origin(v Version) (Version, error) {
	o, ok, err := w.one(`v.blob = $1 and v.path = $2 and v.machine = any($3) and v.op <> 'baseline' order by v.time, v.machine, v.seq`, v.Blob, v.Path, w.machines)
	key := [2]int64{o.machine, o.Seq}
	if err != nil || !ok || w.been[key] || o.Time.After(v.Time) {
		return v, err
	}
	w.been[key] = true
	return o, nil
}

// before returns the nearest earlier version with an available content, and the content. It returns
// false if there is none.
func (w *walk) before(v Version) (was Version, content []byte, ok bool, err error) {
	for v.prev > 0 {
		v, ok, err = w.previous(v)
		if err != nil || !ok {
			return v, nil, false, err
		}
		if v.Blob == nil {
			continue
		}
		content, err = w.content(v)
		if !errors.Is(err, ErrNoText) {
			return v, content, err == nil && !text.Binary(content), err
		}
	}
	return v, nil, false, nil
}

// previous returns the version of a path before v. If a machine has continued the history of
// another machine, the previous version may be on that other machine.
func (w *walk) previous(v Version) (Version, bool, error) {
	machine, upTo := v.machine, int64(math.MaxInt64)
	for range 64 {
		p, ok, err := w.one(`v.machine = $1 and v.seq = $2 and v.segment <= $3`, machine, v.prev, upTo)
		if err != nil || ok {
			return p, ok && p.Seq < v.Seq, err
		}
		const base = `select b.id, coalesce(m.base_n, $3) from machines m join machines b on b.project = m.project and b.machine = m.base where m.id = $1 and m.base_seq >= $2`
		err = w.d.pool.QueryRow(w.ctx, base, machine, v.prev, upTo).Scan(&machine, &upTo)
		if errors.Is(err, pgx.ErrNoRows) && !w.kept.IsZero() {
			return v, false, errDropped
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return v, false, nil
		}
		if err != nil {
			return v, false, err
		}
	}
	return v, false, nil
}

// errDropped means that Prune may have dropped the version.
var errDropped = errors.New("the previous version is no longer stored")

// content returns the content of a version. It comes from the first segment that has a version with
// this content and whose contents were not dropped.
func (w *walk) content(v Version) ([]byte, error) {
	var h store.Hash
	if copy(h[:], v.Blob) != len(h) {
		return nil, fmt.Errorf("%w: version %d of %s", ErrNoText, v.Seq, v.MachineID)
	}
	if c, ok := w.contents.Get(h); ok {
		return c, nil
	}
	type place struct {
		machine string
		s       remote.Segment
	}
	rows, err := w.d.pool.Query(w.ctx, `select distinct on (s.machine, s.n) m.machine, s.n, s.log, s.log_size, s.contents, s.contents_size, s.gen
		from versions v join machines m on m.id = v.machine join segments s on s.machine = v.machine and s.n = v.segment
		where v.blob = $1 and v.machine = any($2) and s.contents <> '' order by s.machine, s.n`, v.Blob, w.machines)
	if err != nil {
		return nil, err
	}
	places, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p place, err error) {
		var n int64
		err = r.Scan(&p.machine, &n, &p.s.Log, &p.s.LogSize, &p.s.Contents, &p.s.ContentsSize, &p.s.Gen)
		p.s.N = uint64(n)
		return p, err
	})
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		err := w.b.Contents(w.ctx, p.machine, p.s, maxContents/2, func(h store.Hash, c []byte) error {
			w.contents.Put(h, bytes.Clone(c))
			return nil
		})
		if err != nil && !errors.Is(err, remote.ErrMissing) {
			return nil, err
		}
		if c, ok := w.contents.Get(h); ok {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: version %d of %s", ErrNoText, v.Seq, v.MachineID)
}
