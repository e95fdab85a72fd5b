package plans

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"cachebro/store"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// treeThen returns, for another machine, the tree that a restore of this history would make.
func (pl *Plans) treeThen(_ context.Context, q wire.PlanRequest) (out wire.Then, _ []byte, err error) {
	paths, seq, err := pl.moment(q)
	if err != nil {
		return out, nil, err
	}
	if q.At.Seq > pl.Store.Seq() || q.Before > 0 && q.At.Seq >= q.Before {
		return out, nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows the numbers", "there is no version %d", q.At.Seq)
	}
	if q.Before > 0 { // another machine continued the history
		seq = min(seq, q.Before-1)
	}
	v, err := pl.Store.Version(seq)
	if err != nil {
		return out, nil, wire.Errorf(wire.ErrNotFound, "cachebro log --machine NAME shows the recorded changes", "that machine's history begins after the requested moment")
	}
	out.Title = fmt.Sprintf("as of %s (version %d)", v.When().Format("2006-01-02 15:04:05"), seq)
	all, err := undo.Planner{Store: pl.Store}.Then(paths, seq)
	if err != nil {
		return out, nil, err
	}
	tree := all
	if len(paths) > 0 { // rules above the paths count as well, so the whole tree is needed
		tree, err = (undo.Planner{Store: pl.Store}).Then(nil, seq)
		if err != nil {
			return out, nil, err
		}
	}
	ignored, end, err := pl.rulesOf(tree)
	if err != nil {
		return out, nil, err
	}
	defer end()
	for _, e := range all {
		if _, _, git := gitdir.Split(string(e.Path)); git || ignored(e) {
			continue // each machine has its own
		}
		out.Files = append(out.Files, wire.ThenEntry{Path: []byte(e.Path), Mode: e.Mode, Size: e.Size, Target: onwire.Path(store.Path(e.Target)), Hash: onwire.Hash(e.Blob), Lost: e.Why})
	}
	return out, nil, err
}

// rulesOf returns a function that reports whether the ignore rules in a tree ignore a path. The
// history of an ignored file is out of date, because a machine sends nothing about ignored files.
// Its last entry may be a removal, or a text that was replaced long ago.
func (pl *Plans) rulesOf(tree []undo.Entry) (ignored func(undo.Entry) bool, end func(), err error) {
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
		if git || e.Mode&unix.S_IFMT != unix.S_IFREG || e.Why != "" || !ignore.IsRuleFile(string(e.Path)) {
			continue
		}
		text, err := pl.Store.Content(e.Blob)
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
	is := func(e undo.Entry) bool {
		dir := e.Mode&unix.S_IFMT == unix.S_IFDIR
		return m.Class(string(e.Path), dir) != ignore.Tracked || e.Mode == 0 && m.Class(string(e.Path), true) != ignore.Tracked
	}
	return is, func() { m.Close(); dir.Close(); _ = os.RemoveAll(top) }, nil
}

// wanted returns the contents that the client must send along with a request for planThen.
func (pl *Plans) wanted(ctx context.Context, q wire.PlanRequest) (out wire.Wanted, _ []byte, err error) {
	if q.Then == nil {
		return out, nil, wire.Errorf(wire.ErrBadRequest, "", "the list of the other machine's files is missing")
	}
	of, err := pl.entries(q.Then)
	if err != nil {
		return out, nil, err
	}
	if err := pl.updateAll(ctx); err != nil {
		return out, nil, err
	}
	all, err := undo.Planner{Store: pl.Store}.Wanted(of)
	for _, e := range all {
		out.Hashes, out.Size = append(out.Hashes, onwire.Hash(e.Blob)), out.Size+e.Size
	}
	if err == nil && out.Size > maxElsewhere {
		err = wire.Errorf(wire.ErrTooLarge, "name some of the files", "the missing contents have %d MiB, and at most %d MiB can be sent", out.Size>>20, maxElsewhere>>20)
	}
	return out, nil, err
}

// planThen makes this project's tree equal to another machine's tree.
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
	if err := pl.updateAll(ctx); err != nil {
		return nil, err
	}
	return planner.RestoreThen(q.Then.Title, of, contents)
}

func (pl *Plans) entries(t *wire.Then) (of []undo.Entry, err error) {
	for _, f := range t.Files {
		e := undo.Entry{Mode: f.Mode, Size: f.Size, Target: string(f.Target), Why: f.Lost}
		e.Path, err = pl.Paths.Clean(f.Path)
		if err != nil {
			return nil, err
		}
		if _, _, git := gitdir.Split(string(e.Path)); e.Path == "" || git {
			return nil, wire.Errorf(wire.ErrBadRequest, "", "%s is not a file of the project", onwire.Display(e.Path))
		}
		e.Blob, err = onwire.ParseHash(f.Hash)
		if err != nil {
			return nil, err
		}
		of = append(of, e)
	}
	return of, nil
}
