package plans

import (
	"context"
	"fmt"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/gitdir"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// then tells what a restore of this history means, for another machine.
func (pl *Plans) then(_ context.Context, q wire.PlanRequest) (out wire.Then, _ []byte, err error) {
	paths, seq, err := pl.moment(q)
	if err != nil {
		return out, nil, err
	}
	if q.At.Seq > pl.store.Seq() {
		return out, nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows the numbers", "there is no version #%d", q.At.Seq)
	}
	v, err := pl.store.Version(seq)
	if err != nil {
		return out, nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows what there is", "that machine's history begins later")
	}
	out.Title = fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq)
	all, err := undo.Planner{Store: pl.store}.Then(paths, seq)
	for _, e := range all {
		if _, _, git := gitdir.Split(string(e.Path)); git {
			continue // each machine has its own
		}
		out.Files = append(out.Files, wire.ThenEntry{Path: []byte(e.Path), Mode: e.Mode, Size: e.Size, Target: onwire.Path(store.Path(e.Target)), Hash: onwire.Hash(e.Blob), Lost: e.Why})
	}
	return out, nil, err
}

// wanted are the contents that must come along with a request for planThen.
func (pl *Plans) wanted(ctx context.Context, q wire.PlanRequest) (out wire.Wanted, _ []byte, err error) {
	if q.Then == nil {
		return out, nil, wire.Errorf(wire.ErrBadRequest, "", "what the other machine had is missing")
	}
	of, err := pl.entries(q.Then)
	if err != nil {
		return out, nil, err
	}
	if err := pl.look(ctx); err != nil {
		return out, nil, err
	}
	all, err := undo.Planner{Store: pl.store}.Wanted(of)
	for _, e := range all {
		out.Hashes, out.Size = append(out.Hashes, onwire.Hash(e.Blob)), out.Size+e.Size
	}
	if err == nil && out.Size > maxElsewhere {
		err = wire.Errorf(wire.ErrTooLarge, "name some of the files", "the contents that are not here have %d MiB, more than %d", out.Size>>20, maxElsewhere>>20)
	}
	return out, nil, err
}

// planThen makes the tree here what another machine's was.
func (pl *Plans) planThen(ctx context.Context, q wire.PlanRequest, body []byte, planner undo.Planner) (*undo.Draft, error) {
	of, err := pl.entries(q.Then)
	if err != nil {
		return nil, err
	}
	var contents [][]byte
	for _, n := range q.Then.Sent {
		if n < 0 || n > int64(len(body)) {
			return nil, wire.Errorf(wire.ErrBadRequest, "", "a content is missing")
		}
		contents, body = append(contents, body[:n:n]), body[n:]
	}
	if err := pl.look(ctx); err != nil {
		return nil, err
	}
	return planner.RestoreThen(q.Then.Title, of, contents)
}

func (pl *Plans) entries(t *wire.Then) (of []undo.Entry, err error) {
	for _, f := range t.Files {
		e := undo.Entry{Mode: f.Mode, Size: f.Size, Target: string(f.Target), Why: f.Lost}
		if e.Path, err = pl.paths.Clean(f.Path); err != nil {
			return nil, err
		}
		if _, _, git := gitdir.Split(string(e.Path)); e.Path == "" || git {
			return nil, wire.Errorf(wire.ErrBadRequest, "", "%s is not a file of the project", onwire.Display(e.Path))
		}
		if e.Blob, err = onwire.ParseHash(f.Hash); err != nil {
			return nil, err
		}
		of = append(of, e)
	}
	return of, nil
}
