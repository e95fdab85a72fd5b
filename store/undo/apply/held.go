package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"cachebro/store/undo/displace"
	"cachebro/store/wire"
)

// displaces reports whether the step removes the present file or replaces its content.
func (w *worker) displaces() bool {
	return slices.Contains([]string{"write", "delete", "symlink"}, w.step.Do) || w.step.Do == "link" && w.step.Expect != ""
}

// hold prevents other processes from opening the step's present file for writing until the step is
// done. If a process already has the file open for writing, it would go on writing to a file
// without a name. That is a conflict. With Force, the content is written in place instead.
func (w *worker) hold(fi fs.FileInfo) error {
	if !w.displaces() {
		return nil
	}
	if !fi.Mode().IsRegular() || links(fi) > 1 && (w.step.Do != "write" || w.step.Apart) {
		return nil // a writer can still reach the file by its other name
	}
	if err := w.withDatabase(); err != nil {
		return err
	}
	f, err := openIn(w.root, w.name, os.O_RDONLY)
	if err != nil {
		return nil // not readable, but still compared with what the plan expects
	}
	w.held, err = displace.Hold(f)
	if err == nil {
		if links(fi) > 1 { // this process may later open the file by another name
			w.release()
		}
		return nil
	}
	f.Close()
	if !errors.Is(err, displace.ErrOpen) {
		return err
	}
	// Without a mount, what another process writes between our check of the file and our change of
	// it would not become a version.
	w.inPlace = w.execution.work.Force && w.execution.overlay && w.step.Do == "write"
	if w.inPlace {
		return nil
	}
	return w.open(fi, "")
}

// open returns the conflict for a file that another process has open for writing.
func (w *worker) open(fi fs.FileInfo, what string) error {
	by, hint := displace.Writers(fi), "end that process first"
	if by != "" {
		by = " " + by
	}
	forceWrites := w.step.Do == "write" && w.execution.overlay && what == ""
	if kind := w.plan.Kind; forceWrites && (kind == "undo" || kind == "redo") {
		hint += ", or cachebro " + kind + " --force writes into it"
	}
	return fmt.Errorf("%s%w%s: %s", what, displace.ErrOpen, by, hint)
}

// release lets other processes open the file for writing again. A displaced file is checked once
// more later.
func (w *worker) release() {
	if w.held != nil && w.displaced == nil {
		w.held.Release()
	}
	w.held = nil
}

func (w *worker) replace(tmp string) (err error) {
	w.displaced, err = w.held.Replace(w.root, tmp, w.name, w.execution.overlay)
	return asChanged(err)
}

func (w *worker) remove() error {
	err := w.withLog(nil)
	if err != nil {
		return err
	}
	w.displaced, err = w.held.Remove(w.root, w.temporary(), w.name, w.execution.overlay)
	return asChanged(err)
}

// asChanged converts the error for a held file that was changed into errChanged.
func asChanged(err error) error {
	if errors.Is(err, displace.ErrChanged) {
		return errChanged
	}
	return err
}

// fill writes a file's content in place, because the file has other names or another process has it
// open for writing. Data that others write at the same time stays in the file and is reported.
func (w *worker) fill(content []byte, old fs.FileInfo) error {
	if err := w.finish(w.name, os.O_WRONLY|os.O_TRUNC|os.O_APPEND, content, old, new(bool)); err != nil {
		return err
	}
	if fi, err := w.root.Lstat(w.name); err == nil && fi.Size() != int64(len(content)) {
		return fmt.Errorf("was written in place, and somebody else wrote to it at the same time: %w", errChanged)
	}
	return nil
}

// A SQLite database has two files next to it: its log, which SQLite applies when it next opens the
// database, and the log's index in shared memory.
var (
	sqliteMagic = []byte("SQLite format 3\x00")
	sqliteLogs  = []string{"-wal", "-journal"}
	sqliteParts = []string{"-wal", "-journal", "-shm"}
)

// withLog returns an error if the plan changes a database but not its log, because SQLite would
// apply the changes in the log to the older content.
func (w *worker) withLog(content []byte) error {
	if !bytes.HasPrefix(content, sqliteMagic) {
		head := make([]byte, len(sqliteMagic))
		if w.held == nil {
			return nil
		}
		if n, _ := w.held.File().ReadAt(head, 0); !bytes.Equal(head[:n], sqliteMagic) {
			return nil
		}
	}
	for _, part := range sqliteLogs {
		fi, err := w.root.Lstat(w.name + part)
		if err == nil && fi.Mode().IsRegular() && fi.Size() > 0 && !w.execution.takes(string(w.step.Path)+part) {
			return fmt.Errorf("%w: %q", errLog, string(w.step.Path)+part)
		}
	}
	return nil
}

var errLog = errors.New("its log holds changes that this plan does not undo and that would be applied to the older content; restore both files, or close the database properly first")

// withDatabase returns an error if the step changes the log of a database that a process has open
// for writing.
func (w *worker) withDatabase() error {
	for _, part := range sqliteParts {
		base, ok := strings.CutSuffix(w.name, part)
		if !ok || base == "" {
			continue
		}
		fi, err := w.root.Lstat(base)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		f, err := openIn(w.root, base, os.O_RDONLY)
		if err != nil {
			continue
		}
		h, err := displace.Hold(f)
		if err == nil {
			h.Release()
			continue
		}
		f.Close()
		if errors.Is(err, displace.ErrOpen) {
			return w.open(fi, "its database ")
		}
	}
	return nil
}

// takes reports whether the plan changes this path and no step for the path has failed.
func (c *execution) takes(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.res.Failed {
		if string(f.Path) == path {
			return false
		}
	}
	return slices.ContainsFunc(c.plan.Steps, func(s wire.PlanStep) bool { return string(s.Path) == path })
}

// Preview turns the steps that Plan would skip, because another process has the file open for
// writing, into conflicts.
func Preview(dir string, p *wire.Plan, force bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the project: %w", err)
	}
	c := &execution{plan: p, work: Work{Force: force}, places: newPlaces(root, p), overlay: displace.Overlay(dir)}
	defer c.places.close()
	keep := p.Steps[:0]
	absent := map[string]bool{} // directories that the plan creates; their subtrees are empty
	for i := range p.Steps {
		w := &worker{execution: c, step: &p.Steps[i], plan: p, places: c.places, root: root, name: string(p.Steps[i].Path)}
		exists := false
		if !absent[path.Dir(w.name)] {
			var err error
			exists, err = w.preview()
			if err != nil {
				p.Conflicts = append(p.Conflicts, wire.Conflict{Path: w.step.Path, Why: reason(err)})
				continue
			}
		}
		if w.step.Do == "mkdir" && !exists {
			absent[w.name] = true
		}
		keep = append(keep, *w.step)
	}
	p.Steps = keep
	return nil
}

// preview returns an error if the step would be skipped because the file is open for writing.
// exists is false if the path does not exist.
func (w *worker) preview() (exists bool, err error) {
	defer w.release()
	fi, err := w.root.Lstat(w.name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist), nil
	}
	err = w.hold(fi)
	if err == nil && w.held != nil {
		err = w.withLog(nil)
	}
	if errors.Is(err, displace.ErrOpen) || errors.Is(err, errLog) {
		return true, err
	}
	return true, nil
}
