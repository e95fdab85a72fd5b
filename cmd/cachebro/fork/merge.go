package fork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/displace"

	"golang.org/x/sys/unix"
)

// step is what the merge does to one path of the project.
type step struct {
	Path     string `json:"path"`
	Do       string `json:"do"` // add, change, merge, remove, conflict, or "as" if the project already has the change
	Conflict string `json:"conflict,omitempty"`

	to      *file // the merged file; nil to delete it
	content []byte
	now     *file // the present file of the project
}

// plan compares the three trees and returns the steps of a merge. It writes nothing.
func (t *trees) plan(ctx context.Context, project *os.Root) (steps []step, err error) {
	all, err := t.changes(ctx)
	if err != nil {
		return nil, err
	}
	moved := movedFrom(all)
	for _, ch := range all {
		s, err := t.step(ch, project)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cli.Quote(ch.path), err)
		}
		if from := moved[ch.path]; from != "" && s.Do == "add" {
			if now, err := describeFile(project, from); err == nil && now == nil {
				s.Do, s.Conflict = "conflict", fmt.Sprintf("it was renamed from %s in the fork, and renamed or removed in the project since", cli.Quote(from))
			}
		}
		steps = append(steps, s)
	}
	keepFull(steps, project)
	return inOrder(steps), nil
}

// keepFull drops the removal of a directory if the project has something in it that the merge does
// not remove.
func keepFull(steps []step, project *os.Root) {
	going := map[string]bool{}
	for i := range slices.Backward(steps) {
		s := &steps[i]
		if s.Do != "remove" {
			continue
		}
		if s.now.dir() {
			inside, err := fs.ReadDir(project.FS(), s.Path)
			if err != nil || slices.ContainsFunc(inside, func(d fs.DirEntry) bool { return !going[path.Join(s.Path, d.Name())] }) {
				s.Do = "as"
				continue
			}
		}
		going[s.Path] = true
	}
}

// movedFrom returns the old names of files that were renamed in the fork and not otherwise changed,
// keyed by the new names.
func movedFrom(all []change) map[string]string {
	gone, moved := map[string]string{}, map[string]string{}
	for _, ch := range all {
		if ch.new == nil && !ch.old.dir() && !ch.old.link() && ch.old.hash != text.Hash(nil) {
			gone[ch.old.hash] = ch.path
		}
	}
	for _, ch := range all {
		if ch.old == nil && !ch.new.dir() && !ch.new.link() && gone[ch.new.hash] != "" {
			moved[ch.path] = gone[ch.new.hash]
		}
	}
	return moved
}

// inOrder puts the removals first, because other steps may create something in their place. The
// content of a directory is removed before the directory.
func inOrder(steps []step) []step {
	var first, rest []step
	for _, s := range slices.Backward(steps) {
		if s.to == nil {
			first = append(first, s)
		}
	}
	for _, s := range steps {
		if s.to != nil {
			rest = append(rest, s)
		}
	}
	return append(first, rest...)
}

func (t *trees) step(ch change, project *os.Root) (s step, err error) {
	s = step{Path: ch.path, to: ch.new}
	s.now, err = describeFile(project, ch.path)
	if err != nil {
		return s, err
	}
	conflict := func(why string) (step, error) {
		s.Do, s.Conflict = "conflict", why
		return s, nil
	}
	switch {
	case same(s.now, ch.new), ch.new == nil && s.now.dir() && !ch.old.dir(): // the files in that directory have separate steps
		s.Do = "as"
		return s, nil
	case ch.new != nil && ch.new.why != "":
		return conflict(ch.new.why)
	case s.now != nil && s.now.why != "":
		return conflict("in the project " + s.now.why)
	case same(s.now, ch.old):
		switch {
		case ch.new == nil:
			s.Do = "remove"
			return s, nil
		case s.now == nil:
			s.Do = "add"
		default:
			s.Do = "change"
		}
		if !ch.new.link() && !ch.new.dir() {
			s.content, err = ch.new.read()
		}
		return s, err
	case ch.old != nil && ch.old.why != "":
		return conflict("its content when the fork was made is unknown: " + ch.old.why)
	case ch.new == nil:
		return conflict("removed in the fork, changed in the project since")
	case s.now == nil && ch.old != nil:
		return conflict("changed in the fork, removed in the project since")
	case ch.old == nil:
		return conflict("created in both, with different contents")
	case ch.new.link() || s.now.link() || ch.old.link(), ch.new.dir() || s.now.dir() || ch.old.dir():
		return conflict("changed in both")
	}
	var texts [3][]byte
	for i, f := range []*file{ch.old, s.now, ch.new} {
		texts[i], err = f.read()
		if err != nil {
			return s, err
		}
		if text.Binary(texts[i]) {
			return conflict("changed in both, and it is not text")
		}
	}
	out, err := diff.Merge(texts[0], texts[1], texts[2])
	if err != nil {
		return conflict(err.Error())
	}
	mode := ch.new.mode
	if mode == ch.old.mode {
		mode = s.now.mode
	} else if s.now.mode != ch.old.mode && s.now.mode != mode {
		return conflict("its mode was changed in both")
	}
	s.Do = "merge"
	if mode == s.now.mode && bytes.Equal(out, texts[1]) {
		s.Do = "as" // already merged
	}
	s.content, s.to = out, &file{mode: mode}
	return s, nil
}

// carry carries out one step. It preserves the owner, attributes and hard links of a file that it
// replaces. carry fails if a process has the file open for writing, or if the project's file has
// changed since plan looked at it.
func (s step) carry(project *os.Root) error {
	f := displace.File{Root: project, Path: s.Path, Exists: s.now != nil}
	toFile := s.to != nil && !s.to.link() && !s.to.dir()
	if !toFile || f.Exists && (s.now.link() || s.now.dir()) {
		return s.swap(project)
	}
	mode := fs.FileMode(s.to.mode & 0o777)
	if f.Exists {
		var err error
		f.Info, err = project.Lstat(s.Path)
		if err == nil {
			f.Content, err = project.ReadFile(s.Path)
		}
		if err != nil {
			return err
		}
		if !same(&file{mode: modeOf(f.Info), hash: text.Hash(f.Content)}, s.now) {
			return errMoved
		}
		held, err := hold(project, s.Path)
		if err != nil {
			return err
		}
		held.Release() // Put holds the file itself
	}
	if !f.Exists || text.Hash(s.content) != s.now.hash {
		if err := f.Put(s.content); err != nil {
			return err
		}
	}
	if f.Exists && f.Info.Mode().Perm() == mode {
		return nil
	}
	return project.Chmod(s.Path, mode)
}

// errMoved reports that the project's file changed since plan looked at it.
var errMoved = errors.New("it changed during the merge; merge again")

// swap removes what the project has at the path and puts the new file there.
func (s step) swap(project *os.Root) error {
	now, err := describeFile(project, s.Path)
	if err == nil && !same(now, s.now) {
		err = errMoved
	}
	if err != nil {
		return err
	}
	if now != nil && !now.link() && !now.dir() {
		held, err := hold(project, s.Path)
		if err != nil {
			return err
		}
		defer held.Release()
	}
	if now != nil {
		err := project.Remove(s.Path)
		if errors.Is(err, unix.ENOTEMPTY) {
			err = errors.New("the directory contains other files")
		}
		if err != nil || s.to == nil {
			return err
		}
	}
	if s.to.dir() {
		return project.MkdirAll(s.Path, 0o777)
	}
	if err := project.MkdirAll(path.Dir(s.Path), 0o777); err != nil {
		return err
	}
	if s.to.link() {
		return project.Symlink(s.to.target, s.Path)
	}
	if err := (&displace.File{Root: project, Path: s.Path}).Put(s.content); err != nil {
		return err
	}
	return project.Chmod(s.Path, fs.FileMode(s.to.mode&0o777))
}

// hold prevents other processes from opening a file for writing. It fails if a process already has
// the file open for writing.
func hold(project *os.Root, name string) (*displace.Held, error) {
	r, err := project.Open(name)
	if err != nil {
		return nil, err
	}
	held, err := displace.Hold(r)
	if errors.Is(err, displace.ErrOpen) {
		if fi, serr := r.Stat(); serr == nil {
			err = fmt.Errorf("it is open for writing %s", displace.Writers(fi))
		}
	}
	if err != nil {
		r.Close()
	}
	return held, err
}

func mergeFork(ctx context.Context, e *cli.Env, f fork, o options) error {
	t, err := openTrees(ctx, e, f)
	if err != nil {
		return err
	}
	defer t.close()
	into, err := e.Locate(f.from.Root)
	if err != nil {
		return err
	}
	if into.Point == "" && !o.dryRun {
		return cli.Hintf("cachebro mount "+cli.Arg(into.Root), "%s is not mounted, so the merge could not be undone", cli.Quote(into.Root))
	}
	project, err := os.OpenRoot(into.Base())
	if err != nil {
		return err
	}
	defer project.Close()
	steps, err := t.plan(ctx, project)
	if err != nil {
		return err
	}
	if !o.dryRun {
		for i := range steps {
			s := &steps[i]
			if s.Do == "as" || s.Do == "conflict" {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := s.carry(project); err != nil {
				s.Do, s.Conflict = "conflict", cli.OneLine(err.Error())
			}
		}
	}
	return printMerge(e, into, steps, o)
}

// printMerge prints what was done and returns the exit status: 0 if everything was done, 1 if there
// were conflicts, 2 if there were only conflicts.
func printMerge(e *cli.Env, into cli.Target, steps []step, o options) error {
	done, left := 0, 0
	for _, s := range steps {
		switch s.Do {
		case "as":
		case "conflict":
			left++
		default:
			done++
		}
	}
	var result error
	switch {
	case left > 0 && done > 0:
		result = cli.ExitStatus(1)
	case left > 0:
		result = cli.ExitStatus(2)
	}
	if o.json {
		if steps == nil {
			steps = []step{}
		}
		if err := e.PrintJSON(map[string]any{"root": into.Root, "steps": steps, "done": done, "conflicts": left, "dry_run": o.dryRun}); err != nil {
			return err
		}
		return result
	}
	signs := map[string]string{"add": "A", "change": "M", "merge": "M", "remove": "D"}
	for _, s := range steps {
		switch s.Do {
		case "as":
		case "conflict":
			fmt.Fprintf(e.Stdout, "conflict: %s: %s\n", cli.Quote(s.Path), s.Conflict)
		case "merge":
			fmt.Fprintf(e.Stdout, "M %s (merged with changes in the project)\n", cli.Quote(s.Path))
		default:
			fmt.Fprintf(e.Stdout, "%s %s\n", signs[s.Do], cli.Quote(s.Path))
		}
	}
	verb := "merged"
	if o.dryRun {
		verb = "would merge"
	}
	switch {
	case done+left == 0:
		fmt.Fprintf(e.Stdout, "nothing to merge into %s\n", cli.Quote(into.Root))
	case done > 0:
		fmt.Fprintf(e.Stdout, "%s %s into %s\n", verb, text.Count(done, "file"), cli.Quote(into.Root))
	}
	if left > 0 {
		fmt.Fprintf(e.Stdout, "%s: these files of the project were not changed; merge again when the conflicts are resolved\n", text.Count(left, "conflict"))
	}
	return result
}

func diffFork(ctx context.Context, e *cli.Env, f fork, o options) error {
	t, err := openTrees(ctx, e, f)
	if err != nil {
		return err
	}
	defer t.close()
	all, err := t.changes(ctx)
	if err != nil {
		return err
	}
	if o.json {
		out := []map[string]any{}
		for _, ch := range all {
			out = append(out, map[string]any{"path": ch.path, "change": ch.sign()})
		}
		return e.PrintJSON(map[string]any{"root": f.Root, "origin": f.from.Root, "seq": f.from.Seq, "changes": out})
	}
	if !o.patch {
		for _, ch := range all {
			fmt.Fprintf(e.Stdout, "%s %s\n", ch.sign(), cli.Quote(ch.path))
		}
		return nil
	}
	for _, ch := range all {
		if ch.old.dir() || ch.new.dir() { // a patch cannot contain directories
			fmt.Fprintf(e.Stdout, "directory %s: %s\n", cli.Quote(ch.path), ch.sign())
		}
		if err := ch.patch(e); err != nil {
			return err
		}
	}
	return nil
}

func (ch change) sign() string {
	switch {
	case ch.old == nil:
		return "A"
	case ch.new == nil:
		return "D"
	}
	return "M"
}

// patch prints one change as input for patch(1).
func (ch change) patch(e *cli.Env) error {
	name := func(f *file, prefix string) string {
		if f == nil {
			return "/dev/null"
		}
		return prefix + ch.path
	}
	content := func(f *file) ([]byte, error) {
		switch {
		case f == nil, f.dir():
			return nil, nil
		case f.link():
			return []byte(f.target + "\n"), nil
		case f.why != "":
			return nil, errors.New(f.why)
		}
		return f.read()
	}
	a, err := content(ch.old)
	if err == nil {
		var b []byte
		b, err = content(ch.new)
		if err == nil {
			if text.Binary(a) || text.Binary(b) {
				fmt.Fprintf(e.Stdout, "binary file %s differs\n", cli.Quote(ch.path))
				return nil
			}
			if ch.old != nil && ch.new != nil && ch.old.mode != ch.new.mode {
				fmt.Fprintf(e.Stdout, "%s: mode %o → %o\n", cli.Quote(ch.path), ch.old.mode&0o7777, ch.new.mode&0o7777)
			}
			if ch.old != nil && ch.new != nil && text.EncodingDiffers(a, b) {
				fmt.Fprintf(e.Stdout, "%s: encoding %s → %s\n", cli.Quote(ch.path), text.EncodingOf(a), text.EncodingOf(b))
			}
			_, err = e.Stdout.Write(diff.Unified(name(ch.old, "a/"), name(ch.new, "b/"), a, b, 3))
			return err
		}
	}
	fmt.Fprintf(e.Stdout, "%s: %s\n", cli.Quote(ch.path), cli.OneLine(err.Error()))
	return nil
}
