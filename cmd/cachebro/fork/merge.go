package fork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// merge is the plan of a merge.
type merge struct {
	*trees
	project *os.Root
	changed map[string]change // by path: the fork's changes that the project does not have yet
	plan    wire.Plan
	made    map[int]change // by the number of a step: the change that it makes; none for a directory made for files
}

// planMerge asks the project's daemon what a merge would change.
func (t *trees) planMerge(ctx context.Context, e *cli.Env, project *os.Root) (*merge, error) {
	all, err := t.changes(ctx)
	if err != nil {
		return nil, err
	}
	m := &merge{trees: t, project: project, changed: map[string]change{}, made: map[int]change{}}
	moved := movedFrom(all)
	of := wire.Elsewhere{Held: true}
	for _, ch := range all {
		now, err := describeFile(project, ch.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cli.Quote(ch.path), err)
		}
		replaced := ch.new == nil && now.dir() && !ch.old.dir() // the project has a directory in its place, whose files are compared separately
		if same(now, ch.new) || replaced {
			continue
		}
		was := ch.old.side()
		f := wire.ElsewhereFile{Path: []byte(ch.path), Was: &was, Want: ch.new.side()}
		switch from := moved[ch.path]; {
		case ch.new != nil && ch.new.why != "":
			f.Lost = ch.new.why
		case ch.old != nil && ch.old.why != "": // so it is unknown whether the project's file has changed since
			f.Lost = ch.old.why
		case from != "" && now == nil:
			if at, err := describeFile(project, from); err == nil && at == nil {
				f.Lost = fmt.Sprintf("it was renamed from %s in the fork, and renamed or removed in the project since", cli.Quote(from))
			}
		}
		m.changed[ch.path] = ch
		of.Files = append(of.Files, f)
	}
	if len(of.Files) == 0 {
		return m, nil
	}
	holds := map[string]bool{} // directories of merged files
	for _, f := range of.Files {
		for dir := path.Dir(string(f.Path)); dir != "."; dir = path.Dir(dir) {
			holds[dir] = true
		}
	}
	for _, ch := range t.filled { // the new directories of merged files get their modes
		if holds[ch.path] {
			of.Files = append(of.Files, wire.ElsewhereFile{Path: []byte(ch.path), Was: &wire.ElsewhereSide{}, Want: ch.new.side()})
		}
	}
	q := wire.PlanRequest{Kind: "undo", Elsewhere: &of, Merge: true, DryRun: true}
	looked := e.WatchTree(ctx, t.c)
	defer looked()
	contents := map[string]func() ([]byte, error){}
	for _, ch := range all {
		for _, f := range []*file{ch.old, ch.new} {
			if f != nil && f.read != nil {
				contents[f.hash] = f.read
			}
		}
	}
	body, err := history.SendWanted(ctx, t.c, q, func(hash string) ([]byte, error) { return contents[hash]() })
	if err == nil {
		_, err = t.c.Call(ctx, wire.MPlan, q, body, &m.plan)
	}
	m.plan.ID, m.plan.Kind = fmt.Sprintf("merge-%d", os.Getpid()), "merge"
	m.plan.Conflicts = m.left(slices.Concat(m.plan.Conflicts, m.plan.Lost))
	for _, s := range m.plan.Steps {
		m.made[s.N] = m.changeOf(s)
	}
	return m, err
}

// changeOf returns the change that a step makes. A file that has several names in the project may be
// several files in the fork, so the change may have another path than the step.
func (m *merge) changeOf(s wire.PlanStep) change {
	own, known := m.changed[string(s.Path)]
	if known && (s.Do != "write" || own.makes(s.Hash)) {
		return own
	}
	at, err := m.project.Lstat(string(s.Path))
	if err != nil || !at.Mode().IsRegular() {
		return own
	}
	for _, ch := range m.changed {
		fi, err := m.project.Lstat(ch.path)
		if err != nil || !os.SameFile(at, fi) {
			continue
		}
		if b, err := m.content(ch, s.Hash); s.Do != "write" || err == nil && text.Hash(b) == s.Hash {
			return ch
		}
	}
	return own
}

func (ch change) makes(hash string) bool { return ch.new != nil && ch.new.hash == hash }

// left returns the conflicts, except those of directories that were deleted in the fork. They stay in
// the project because of the other files in them.
func (m *merge) left(all []wire.Conflict) []wire.Conflict {
	return slices.DeleteFunc(all, func(x wire.Conflict) bool {
		ch := m.changed[string(x.Path)]
		return ch.old.dir() && ch.new == nil
	})
}

// paths returns the changes of the fork that a merge would make or list as conflicts.
func (m *merge) paths() (out []string) {
	for _, s := range m.plan.Steps {
		out = append(out, m.made[s.N].path)
	}
	for _, x := range m.plan.Conflicts {
		out = append(out, string(x.Path))
	}
	out = slices.DeleteFunc(out, func(p string) bool { return p == "" }) // directories made for files
	slices.Sort(out)
	return slices.Compact(out)
}

// side describes the state of a file for the project's daemon.
func (f *file) side() wire.ElsewhereSide {
	if f == nil {
		return wire.ElsewhereSide{}
	}
	return wire.ElsewhereSide{Mode: f.mode, Size: f.size, Target: []byte(f.target), Hash: f.hash}
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

// content returns the content that a change gives a file of the project: the fork's, if it has the
// given hash, or the fork's changes merged into the present content.
func (m *merge) content(ch change, hash string) ([]byte, error) {
	if ch.makes(hash) {
		return ch.new.read()
	}
	sides := [2][]byte{}
	for i, f := range []*file{ch.old, ch.new} {
		if f == nil || f.read == nil {
			return nil, errors.New("the fork has no text to merge")
		}
		b, err := f.read()
		if err != nil {
			return nil, err
		}
		sides[i] = b
	}
	now, err := m.project.ReadFile(ch.path)
	if err != nil {
		return nil, err
	}
	return diff.Merge(sides[0], sides[1], now)
}

// mixes reports whether a step writes a content that combines the changes of both sides.
func (m *merge) mixes(s wire.PlanStep) bool { return s.Do == "write" && !m.made[s.N].makes(s.Hash) }

// carryOut makes the changes in the project. They are recorded as changes by this process, so an
// undo treats them as one action.
func (m *merge) carryOut(ctx context.Context, dir string) (apply.Result, error) {
	steps := map[int]wire.PlanStep{}
	for _, s := range m.plan.Steps {
		steps[s.N] = s
	}
	return apply.Plan(ctx, dir, m.plan, apply.Work{
		Fetch: func(_ context.Context, ns []int) ([][]byte, error) {
			b, err := m.content(m.made[ns[0]], steps[ns[0]].Hash)
			return [][]byte{b}, err
		},
		After: func(int) error { return nil },
	})
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
	// If two merges made their plans at the same time, one could overwrite what the other has just
	// written.
	if !o.dryRun {
		state, err := e.Paths().State(into.Root)
		if err != nil {
			return err
		}
		unlock, err := cli.LockDir(state)
		if err != nil {
			return err
		}
		defer unlock()
	}
	m, err := t.planMerge(ctx, e, project)
	if err != nil {
		return err
	}
	if !o.dryRun {
		res, err := m.carryOut(ctx, into.Base())
		if err != nil {
			return err
		}
		m.plan.Conflicts = append(m.plan.Conflicts, m.left(slices.Concat(res.Failed, res.Left))...)
		m.plan.Steps = slices.DeleteFunc(m.plan.Steps, func(s wire.PlanStep) bool { return !slices.Contains(res.Done, s.N) })
	}
	return m.print(e, into, o)
}

// print prints what was done and returns the exit status: 0 if everything was done, 1 if there were
// conflicts, 2 if there were only conflicts.
func (m *merge) print(e *cli.Env, into cli.Target, o options) error {
	done, left := apply.Files(m.plan), len(m.plan.Conflicts)
	var result error
	switch {
	case left > 0 && done > 0:
		result = cli.ExitStatus(1)
	case left > 0:
		result = cli.ExitStatus(2)
	}
	lines, steps := []string{}, []map[string]any{}
	for _, s := range m.plan.Steps {
		sign, do, note := "M", "change", ""
		switch letter := history.StepLetter(s); {
		case m.mixes(s):
			do, note = "merge", " (merged with changes in the project)"
		case letter == "A" || s.Do == "symlink" && s.Expect == "absent":
			sign, do = "A", "add"
		case letter == "D":
			sign, do = letter, "remove"
		}
		name := cmp.Or(m.made[s.N].path, string(s.Path))
		lines = append(lines, sign+" "+cli.Quote(name)+note)
		steps = append(steps, cli.Object(map[string]string{"do": do}, map[string][]byte{"path": []byte(name)}))
	}
	for _, x := range m.plan.Conflicts {
		why := history.ConflictText(x, e)
		lines = append(lines, "conflict: "+cli.Quote(string(x.Path))+": "+why)
		steps = append(steps, cli.Object(map[string]string{"do": "conflict", "conflict": why}, map[string][]byte{"path": x.Path}))
	}
	if o.json {
		if err := e.PrintJSON(map[string]any{"root": into.Root, "steps": steps, "done": done, "conflicts": left, "dry_run": o.dryRun}); err != nil {
			return err
		}
		return result
	}
	for _, line := range lines {
		fmt.Fprintln(e.Stdout, line)
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
			out = append(out, cli.Object(map[string]string{"change": ch.sign()}, map[string][]byte{"path": []byte(ch.path)}))
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
		return visible.Name(prefix + ch.path) // quoted as git does, so that git can apply the output
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
