package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cachebro/cmd/cachebro/cli"
)

// importing marks a state directory that an import is making. A state directory
// without this file holds a whole history: that of the import, or the former one,
// with which it has changed places. A process that is killed between two steps leaves
// one or the other.
const importing = "importing"

// asideOf is a free place for the history of root that is put out of the way now.
func asideOf(e *cli.Env, root string) (string, error) {
	name := root + " before " + e.Now().Format("2006-01-02 15.04.05")
	for n := 2; ; n++ {
		dir, err := e.Paths().State(name)
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(dir); err != nil {
			return dir, nil
		}
		name = fmt.Sprintf("%s before %s, %d", root, e.Now().Format("2006-01-02 15.04.05"), n)
	}
}

// clearBeside makes way for an import beside a state directory: what a killed
// one had begun is removed, and a whole history is put into saved.
func clearBeside(e *cli.Env, beside, saved string) error {
	_, err := os.Lstat(filepath.Join(beside, importing))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil && cli.IsDir(filepath.Join(beside, "store", "db")) {
		if err := os.Rename(beside, saved); err != nil {
			return err
		}
		fmt.Fprintf(e.Stderr, "note: an import was cut short; what was recorded before it is kept in %s\n", cli.Quote(saved))
		return nil
	}
	// The history first: without it nobody takes the rest for one.
	return errors.Join(os.RemoveAll(filepath.Join(beside, "store")), os.RemoveAll(beside))
}

// putHistory makes fresh the store of a state directory without versions. The
// index goes with the old one, from which it was made.
func putHistory(state, fresh string) error {
	if err := os.RemoveAll(filepath.Join(state, "index")); err != nil {
		return err
	}
	store := filepath.Join(state, "store")
	if err := exchange(fresh, store); err == nil {
		err = os.RemoveAll(fresh) // the empty one
		if err != nil {
			return err
		}
	} else { // there is none, or the file system cannot
		if err := os.RemoveAll(store); err != nil {
			return err
		}
		if err := os.Rename(fresh, store); err != nil {
			return err
		}
	}
	d, err := os.Open(state)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
