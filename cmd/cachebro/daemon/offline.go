package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cachebro/cmd/cachebro/daemon/fork"
	"cachebro/cmd/cachebro/daemon/tidy"
	"cachebro/store"
	"cachebro/store/portable"
	"cachebro/store/remote"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// This file works on a project's history while no daemon serves it. It imports a history, follows
// the history of another machine, and fills a directory from an imported history. The callers end
// the daemon first. Each function holds the lock of the state directory, so that no daemon can
// start.

// ErrHistory reports that the project already has a history, which an import would replace.
var ErrHistory = errors.New("the project has a history already")

// Lock takes the lock of a state directory. It fails if a running daemon holds the lock.
// flag is os.O_CREATE or 0. With 0, a directory without a lock file needs no lock.
func Lock(state string, flag int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(state, "lock"), os.O_RDWR|flag, 0o600)
	if flag == 0 && errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, wire.Errorf(wire.ErrLocked, "cachebro status", "the history in %q is in use", state)
	}
	return func() { f.Close() }, nil
}

// openAlone opens the history in a locked state directory. It reserves no disk space, because the
// next daemon does.
func openAlone(state string) (*store.Store, error) {
	return store.Open(filepath.Join(state, "store"), store.Options{Ballast: -1})
}

// ImportHistory makes an exported stream the history of the project at root. It fails with
// ErrHistory if the project has a history already. A failed import changes nothing.
func ImportHistory(ctx context.Context, state, root, version string, from io.Reader, o store.Options) (c portable.Totals, err error) {
	err = newHistory(state, func(fresh string) error {
		c, err = portable.Import(ctx, fresh, from, tidy.Portable(root, version), o)
		return err
	})
	return c, err
}

// ResumeHistory is ImportHistory from a bucket. It returns the number of versions.
func ResumeHistory(ctx context.Context, state, version string, b *remote.Bucket, h remote.Head, o store.Options) (versions uint64, err error) {
	err = newHistory(state, func(fresh string) error {
		return portable.Create(ctx, fresh, o, func(s *store.Store) error {
			err := b.Fill(ctx, h, s, tidy.Portable(h.Machine.Root, version))
			versions = s.Stats().Versions
			return err
		})
	})
	return versions, err
}

// newHistory calls create, which makes a store in the directory fresh, and makes that store the
// history of a state directory that has none.
func newHistory(state string, create func(fresh string) error) error {
	unlock, err := Lock(state, os.O_CREATE)
	if err != nil {
		return err
	}
	defer unlock()
	empty, err := hasNoHistory(state)
	if err != nil {
		return err
	}
	if !empty {
		return ErrHistory
	}
	fresh := filepath.Join(state, "import")
	if err := os.RemoveAll(fresh); err != nil { // left by an import that was killed
		return err
	}
	if err := create(fresh); err != nil {
		return err
	}
	return replaceHistory(state, fresh)
}

// hasNoHistory reports whether the state directory has no history that an import would replace.
func hasNoHistory(state string) (bool, error) {
	if _, err := os.Stat(filepath.Join(state, "store", "db")); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	s, err := openAlone(state)
	if err != nil {
		return false, err
	}
	empty, err := portable.Empty(s, tidy.WrittenByUsers())
	return empty, errors.Join(err, s.Close())
}

// replaceHistory makes fresh the store of a state directory that has no versions. It deletes the
// index, which was made from the old store.
func replaceHistory(state, fresh string) error {
	if err := os.RemoveAll(filepath.Join(state, "index")); err != nil {
		return err
	}
	store := filepath.Join(state, "store")
	if err := os.RemoveAll(store); err != nil {
		return err
	}
	if err := os.Rename(fresh, store); err != nil {
		return err
	}
	d, err := os.Open(state)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// FollowHistory brings the copy of a machine's history in state up to date. known is where the copy
// ended before. reached is where it ends afterwards, even if only a part could be read. last is the
// time of its last version.
func FollowHistory(ctx context.Context, state, version string, b *remote.Bucket, h remote.Head, known remote.Known) (reached remote.Known, last time.Time, err error) {
	reached = known
	unlock, err := Lock(state, os.O_CREATE)
	if err != nil {
		return reached, last, err
	}
	defer unlock()
	s, err := openAlone(state)
	if err != nil {
		return reached, last, err
	}
	defer func() {
		if cerr := errors.Join(s.Sync(), s.Close()); cerr != nil { // count nothing as fetched
			reached, err = known, errors.Join(err, cerr)
		}
	}()
	reached, err = b.Follow(ctx, h, known, s, tidy.Portable(h.Machine.Root, version))
	last = h.Time
	if err != nil {
		if v, verr := s.Version(s.Seq()); verr == nil {
			last = v.When()
		}
	}
	return reached, last, err
}

// ErrNotSending means that FillFromHistory has filled in the files, but that the next daemon does not
// send the history.
var ErrNotSending = errors.New("this machine does not send the history")

// Filling configures FillFromHistory.
type Filling struct {
	Place remote.Place // where the history came from
	Head  remote.Head  // the history
	At    time.Time    // fill in the files as of this time; zero means the newest state
	Send  bool         // let the next daemon continue to send the history
}

// FillFromHistory fills the directory root with its files as of a moment. They come from its
// history, which was imported from a bucket. note is a remark for the user about the id under which
// the history is sent.
func FillFromHistory(ctx context.Context, state, root, version string, o Filling) (a wire.ForkAnswer, note string, err error) {
	unlock, err := Lock(state, os.O_CREATE)
	if err != nil {
		return a, "", err
	}
	defer unlock()
	s, err := openAlone(state)
	if err != nil {
		return a, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := remote.SetOrigin(s, o.Place, o.Head); err != nil {
		return a, "", err
	}
	seq := s.Seq()
	if !o.At.IsZero() {
		seq, err = s.SeqAt(o.At)
		if err != nil {
			return a, "", err
		}
	}
	to, err := os.Open(root)
	if err != nil {
		return wire.ForkAnswer{Seq: seq}, "", err
	}
	defer to.Close()
	a, err = fork.Fill(ctx, s, seq, to)
	if err == nil && o.Send {
		note, err = sendOn(ctx, s, root, version, o.Place)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrNotSending, err)
		}
	}
	return a, note, err
}

// sendOn makes the next daemon continue to send the history to the bucket.
func sendOn(ctx context.Context, s *store.Store, root, version string, place remote.Place) (note string, err error) {
	sender, err := remote.NewSender(s, portable.PartOptions{Options: tidy.Portable(root, version)})
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	err = sender.Add(ctx, place, host, nil)
	return sender.Note(), err
}
