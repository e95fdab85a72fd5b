package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cachebro/store/remote"

	"github.com/jackc/pgx/v5"
)

// errAuthors means that the bucket now names another machine as the writer of versions.
var errAuthors = errors.New("the bucket names another machine as the writer of these versions")

// author is a machine with the range of versions that it wrote under an id.
type author struct {
	first, last int64 // last is math.MaxInt64 for the present writer
	name, root  string
	hidden      bool // no key decrypts the name
}

// authorsOf returns the authors that a head names.
func authorsOf(h remote.Head) (out []author) {
	for _, w := range h.Writers() {
		a := author{first: int64(w.First), last: int64(w.Last), name: plain(w.Called()), root: plain(w.Root), hidden: w.Name == ""}
		if w.Last == 0 {
			a.last = math.MaxInt64
		}
		out = append(out, a)
	}
	return out
}

// authors updates the table of writers from a head. It never changes known names, or the range of a
// machine that handed the ID over. It returns errAuthors if the head contradicts the table.
func (d *DB) authors(ctx context.Context, id int, h remote.Head) (conflict error) {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `select first, last, name, root from writers where machine = $1 order by first for update`, id)
		if err != nil {
			return err
		}
		have, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (a author, err error) {
			err = r.Scan(&a.first, &a.last, &a.name, &a.root)
			a.hidden = a.name == remote.Machine{ID: h.Machine.ID}.Called()
			return a, err
		})
		if err != nil {
			return err
		}
		var all []author
		all, conflict = merged(have, authorsOf(h))
		for i, a := range all {
			if i < len(have) && have[i] == a {
				continue
			}
			const put = `insert into writers (machine, first, last, name, root) values ($1, $2, $3, $4, $5)
				on conflict (machine, first) do update set last = excluded.last, name = excluded.name, root = excluded.root`
			if _, err := tx.Exec(ctx, put, id, a.first, a.last, a.name, a.root); err != nil {
				return err
			}
		}
		return nil
	})
	return cmp.Or(err, conflict)
}

// merged combines the known authors with the authors that a head names.
func merged(have, want []author) ([]author, error) {
	if len(have) == 0 {
		return want, nil
	}
	out := slices.Clone(have)
	open := &out[len(out)-1]
	for i := range out {
		if i >= len(want) || !out[i].mayBe(want[i], i == len(out)-1) {
			now := want[len(want)-1]
			return succeeded(out, now, max(now.first, open.first)), fmt.Errorf("%w: versions from %d on were attributed to %s", errAuthors, out[i].first, out[i].name)
		}
		if !want[i].hidden {
			out[i].name, out[i].root = want[i].name, want[i].root
			out[i].hidden = false
		}
	}
	open.last = want[len(out)-1].last
	return append(out, want[len(out):]...), nil
}

// mayBe reports whether a may be the author w that a head names. open means that a was the present
// writer, who may have handed the ID over meanwhile.
func (a author) mayBe(w author, open bool) bool {
	if a.first != w.first || a.last != w.last && !open {
		return false
	}
	return a.hidden || w.hidden || a.name == w.name
}

// succeeded appends an author whose range begins at the version from. It appends nothing if the
// last author already is the same machine.
func succeeded(all []author, now author, from int64) []author {
	last := &all[len(all)-1]
	switch {
	case now.hidden || now.name == last.name:
		return all
	case last.hidden || from <= last.first: // the last author has no known version
		last.name, last.root = now.name, now.root
		return all
	}
	last.last = from - 1
	now.first = from
	return append(all, now)
}
