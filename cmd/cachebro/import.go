package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/daemon"
)

func importCommand() command {
	return command{
		name: "import", group: groupStore, args: "FILE", short: "bring a history that export wrote back, where there is none",
		long: `The project must not be mounted. Everything in FILE (- for standard input) is
verified; until that is done, and if it fails, nothing changes. Two histories
are not merged: where the project has one, --aside puts it out of the way first.
The next mount goes on from the imported history.

Examples:
  cachebro import ~/backup/app.history
  cachebro import --check ~/backup/app.history
  cachebro import --aside --dir ~/src/app app.history`,
		run: runImport,
	}
}

// imported is what import prints with --json.
type imported struct {
	Root     string    `json:"root,omitempty"`
	Aside    string    `json:"aside,omitempty"` // where the former history is
	From     string    `json:"from"`            // root of the project that was exported
	Made     time.Time `json:"made"`
	Program  string    `json:"program"` // version that wrote the file
	Versions uint64    `json:"versions"`
	Files    uint64    `json:"files,omitempty"`
	Contents uint64    `json:"contents"`
	Bytes    int64     `json:"bytes"`
	Records  uint64    `json:"records"`
}

func runImport(ctx context.Context, e *env) error {
	fs := e.flags()
	check := fs.Bool("check", false, "only read and verify FILE")
	aside := fs.Bool("aside", false, "put a history that the project has aside")
	dir, asJSON := storeFlags(fs)
	args, err := e.parse(fs, 1, 1)
	if err != nil {
		return err
	}
	from := io.Reader(e.stdin)
	if args[0] != "-" {
		path, err := e.abs(args[0])
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	var im imported
	var c store.Carried
	if *check {
		c, err = store.CheckStream(ctx, from)
	} else {
		c, err = e.bringBack(ctx, *dir, from, *aside, &im)
	}
	if err != nil {
		if hint := store.Hint(err); hint != "" {
			return hintf(hint, "%s: %v", quote(args[0]), err)
		}
		return fmt.Errorf("%s: %w", quote(args[0]), err)
	}
	im.From, im.Made, im.Program, im.Versions, im.Contents, im.Bytes, im.Records = c.Root, time.Unix(0, c.Made), c.Program, c.Versions, c.Contents, c.Bytes, c.Records
	im.Files = c.Files
	switch {
	case *asJSON:
		return e.printJSON(im)
	case *check:
		fmt.Fprintf(e.stdout, "%s is whole: %d versions with %d contents (%s) of %s, written %s\n", quote(args[0]), im.Versions, im.Contents, bytesText(im.Bytes), quote(im.From), im.Made.Format("2006-01-02 15:04"))
		return nil
	}
	fmt.Fprintf(e.stdout, "%s has %d versions of %d files now, from %s, written %s\n", quote(im.Root), im.Versions, im.Files, quote(im.From), im.Made.Format("2006-01-02 15:04"))
	if im.Aside != "" {
		fmt.Fprintf(e.stdout, "what was recorded before is kept in %s\n", quote(im.Aside))
	}
	return nil
}

// bringBack makes the history of the project in dir out of a stream.
func (e *env) bringBack(ctx context.Context, dir string, from io.Reader, aside bool, im *imported) (c store.Carried, err error) {
	root, err := e.existingDir(dir)
	if err != nil {
		return c, err
	}
	if top, ok := mounts.Top(root); ok {
		root = top
	}
	im.Root = root
	overlays, err := mounts.Overlays()
	if err != nil {
		return c, err
	}
	for _, m := range overlays {
		if m.Source == root || m.Point == root {
			return c, hintf("cd / && cachebro umount "+arg(m.Point), "%s is mounted", quote(root))
		}
	}
	limits, err := e.storeLimits()
	if err != nil {
		return c, err
	}
	e.endDaemon(ctx, root)
	p := e.paths()
	state, err := p.MakeState(root)
	if err != nil {
		return c, err
	}
	unlock, err := lockedState(state)
	if err != nil {
		return c, err
	}
	defer unlock()
	empty, err := emptyHistory(state)
	if err != nil {
		return c, err
	}
	if !empty && !aside {
		return c, hintf("cachebro import --aside … puts it out of the way", "%s has a history of its own, and two are not merged", quote(root))
	}
	if empty {
		fresh := filepath.Join(state, "import")
		if err := os.RemoveAll(fresh); err != nil { // of an import that was killed
			return c, err
		}
		if c, err = store.Import(ctx, fresh, from, daemon.Portable(root, version), limits); err != nil {
			return c, err
		}
		return c, putHistory(state, fresh)
	}
	// A whole state directory beside, which changes places with the present one
	// when it is complete.
	name := root + " import"
	beside, err := p.State(name)
	var saved string
	if err == nil {
		saved, err = e.asideOf(root)
	}
	if err == nil {
		err = e.clearBeside(beside, saved)
	}
	if err == nil {
		beside, err = p.MakeState(name)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(beside, importing), nil, 0o600)
	}
	if err != nil {
		return c, err
	}
	unlockBeside, err := lockedState(beside)
	if err != nil {
		return c, err
	}
	defer unlockBeside()
	if c, err = store.Import(ctx, filepath.Join(beside, "store"), from, daemon.Portable(root, version), limits); err != nil {
		return c, errors.Join(err, os.RemoveAll(beside))
	}
	setUp := slices.Contains(e.setUpRoots(), root)
	err = os.Remove(filepath.Join(beside, importing))
	if err == nil {
		err = exchange(beside, state)
	}
	if err != nil {
		return c, errors.Join(fmt.Errorf("put the history in place: %w", err), os.RemoveAll(beside))
	}
	if setUp {
		if err := e.markSetUp(root, true); err != nil {
			return c, err
		}
	}
	if im.Aside, err = e.asideOf(root); err != nil {
		return c, err
	}
	return c, os.Rename(beside, im.Aside)
}

// emptyHistory: nothing that an import would take the place of.
func emptyHistory(state string) (bool, error) {
	dir := filepath.Join(state, "store")
	if !isDir(filepath.Join(dir, "db")) {
		return true, nil
	}
	s, err := store.Open(dir, store.Options{Ballast: -1})
	if err != nil {
		return false, err
	}
	empty, err := s.Empty(daemon.Said())
	return empty, errors.Join(err, s.Close())
}
