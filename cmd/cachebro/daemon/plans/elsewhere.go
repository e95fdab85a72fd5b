package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Some plans apply the changes that were made in one tree to another tree. This file has both sides
// of such a plan: what the history of the first tree sends, and what the project does with it.

// maxElsewhere bounds the contents sent from one tree to another, in bytes.
const maxElsewhere = 200 << 20

// changesFor returns, for another machine, what an undo or restore of this history would change.
func (pl *Plans) changesFor(_ context.Context, q wire.PlanRequest) (out wire.Elsewhere, _ []byte, err error) {
	var of []undo.Elsewhere
	if q.Kind == store.PlanRestore {
		out.Title, of, err = pl.treeThen(q)
	} else {
		var uq undo.Query
		uq, err = pl.undoQuery(q)
		if err == nil {
			out.Title, of, err = undo.Planner{Store: pl.Store}.Taken(uq)
		}
	}
	side := func(s undo.Side) wire.ElsewhereSide {
		return wire.ElsewhereSide{Mode: s.Mode, Size: s.Size, Target: onwire.Path(store.Path(s.Target)), Hash: onwire.Hash(s.Blob)}
	}
	for _, e := range of {
		f := wire.ElsewhereFile{Path: []byte(e.Path), Want: side(e.Want), Lost: e.Lost}
		if e.Was != nil {
			was := side(*e.Was)
			f.Was = &was
		}
		out.Files = append(out.Files, f)
	}
	return out, nil, err
}

// treeThen returns the tree that a restore of this history would make.
func (pl *Plans) treeThen(q wire.PlanRequest) (title string, out []undo.Elsewhere, err error) {
	names, err := pl.requested(q.Paths)
	if err != nil {
		return "", nil, err
	}
	seq, err := pl.moment(q, names)
	if err != nil {
		return "", nil, err
	}
	if q.At.Seq > pl.Store.Seq() || q.Before > 0 && q.At.Seq >= q.Before {
		return "", nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows the numbers", "there is no version %d", q.At.Seq)
	}
	if q.Before > 0 { // another machine continued the history
		seq = min(seq, q.Before-1)
	}
	v, err := pl.Store.Version(seq)
	if err != nil {
		return "", nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows the recorded changes", "that machine's history begins after the requested moment")
	}
	planner := undo.Planner{Store: pl.Store}
	tree, err := planner.Then(seq)
	if err != nil {
		return "", nil, err
	}
	ignored, end, err := pl.rulesOf(tree)
	if err != nil {
		return "", nil, err
	}
	defer end()
	for _, e := range tree {
		if names.Some() && !names.Has(e.Path) {
			continue
		}
		if _, _, git := gitdir.Split(string(e.Path)); !git && !ignored(e) { // each machine has its own git files and ignored files
			out = append(out, e)
		}
	}
	return fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq), out, nil
}

// rulesOf returns a function that reports whether the ignore rules in a tree ignore a path. The
// history of an ignored file is out of date, because a machine sends nothing about ignored files.
// Its last entry may be a removal, or a text that was replaced long ago.
func (pl *Plans) rulesOf(tree []undo.Elsewhere) (ignored func(undo.Elsewhere) bool, end func(), err error) {
	top, err := os.MkdirTemp("", "cachebro-rules-")
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = os.RemoveAll(top) }
	defer func() {
		if err != nil {
			end()
		}
	}()
	dir, err := os.Open(top)
	if err != nil {
		return nil, nil, err
	}
	end = func() { dir.Close(); _ = os.RemoveAll(top) }
	root, err := os.OpenRoot(top) // the names come from another machine
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	write := func(name string, text []byte) error {
		return errors.Join(root.MkdirAll(path.Dir(name), 0o700), root.WriteFile(name, text, 0o600))
	}
	if err := write(".git/HEAD", []byte("ref: refs/heads/main\n")); err != nil { // makes top a repository, so that rules above it do not count
		return nil, end, err
	}
	for _, e := range tree {
		_, _, git := gitdir.Split(string(e.Path))
		if git || e.Want.Mode&unix.S_IFMT != unix.S_IFREG || e.Lost != "" || !ignore.IsRuleFile(string(e.Path)) {
			continue
		}
		text, err := pl.Store.Content(e.Want.Blob)
		if err == nil {
			err = write(string(e.Path), text)
		}
		if err != nil { // without these rules it is unknown which paths are ignored
			return nil, end, fmt.Errorf("the rules in %s: %w", onwire.Display(e.Path), err)
		}
	}
	m, err := ignore.New(dir, ignore.Options{})
	if err != nil {
		return nil, end, err
	}
	is := func(e undo.Elsewhere) bool {
		dir := e.Want.Mode&unix.S_IFMT == unix.S_IFDIR
		return m.Class(string(e.Path), dir) != ignore.Tracked || e.Want.Mode == 0 && m.Class(string(e.Path), true) != ignore.Tracked
	}
	return is, func() { m.Close(); dir.Close(); _ = os.RemoveAll(top) }, nil
}

// wanted returns the contents that the client must send along with a request for planTransfer.
func (pl *Plans) wanted(ctx context.Context, q wire.PlanRequest) (out wire.Wanted, _ []byte, err error) {
	t, err := pl.transfer(q, nil)
	if err != nil {
		return out, nil, err
	}
	if _, err := pl.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill); err != nil {
		return out, nil, err
	}
	if err := pl.updateAll(ctx); err != nil {
		return out, nil, err
	}
	all, err := undo.Planner{Store: pl.Store}.Wanted(t)
	for h, size := range all {
		out.Hashes, out.Size = append(out.Hashes, onwire.Hash(h)), out.Size+size
	}
	if err == nil && out.Size > maxElsewhere {
		err = wire.Errorf(wire.ErrTooLarge, "ask for fewer files by naming them", "the missing contents have %d MiB, and at most %d MiB can be sent", out.Size>>20, maxElsewhere>>20)
	}
	return out, nil, err
}

// planTransfer plans how to make the changes of another tree in this project.
func (pl *Plans) planTransfer(ctx context.Context, q wire.PlanRequest, body []byte, planner undo.Planner) (*undo.Draft, error) {
	t, err := pl.transfer(q, body)
	if err != nil {
		return nil, err
	}
	if err := pl.updateAll(ctx); err != nil {
		return nil, err
	}
	return planner.Elsewhere(q.Kind, t)
}

func (pl *Plans) transfer(q wire.PlanRequest, body []byte) (t undo.Transfer, err error) {
	if q.Elsewhere == nil {
		return t, wire.Errorf(wire.ErrBadRequest, "", "the list of changes is missing")
	}
	t = undo.Transfer{Title: q.Elsewhere.Title, Held: q.Elsewhere.Held, Merge: q.Merge, Force: q.Force}
	for _, n := range q.Elsewhere.Sent {
		if n < 0 || n > int64(len(body)) {
			return t, wire.Errorf(wire.ErrBadRequest, "", "a content is missing")
		}
		t.Contents, body = append(t.Contents, body[:n:n]), body[n:]
	}
	for _, f := range q.Elsewhere.Files {
		e := undo.Elsewhere{Lost: f.Lost}
		e.Path, err = pl.Paths.Clean(f.Path)
		if err != nil {
			return t, err
		}
		if _, _, git := gitdir.Split(string(e.Path)); e.Path == "" || git {
			return t, wire.Errorf(wire.ErrBadRequest, "", "%s is not a file of the project", onwire.Display(e.Path))
		}
		e.Want, err = sideOf(f.Want)
		if f.Was != nil {
			was, werr := sideOf(*f.Was)
			e.Was, err = &was, cmp.Or(err, werr)
		}
		if err != nil {
			return t, err
		}
		t.Files = append(t.Files, e)
	}
	return t, nil
}

func sideOf(s wire.ElsewhereSide) (undo.Side, error) {
	blob, err := onwire.ParseHash(s.Hash)
	return undo.Side{Mode: s.Mode, Size: s.Size, Blob: blob, Target: string(s.Target)}, err
}
