package gitback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// Lost is a commit to which a ref once pointed and that no ref or stash reaches now.
type Lost struct {
	wire.GitTip
	Subject string `json:"subject"`
	Gone    bool   `json:"gone,omitempty"` // not in the repository; only its saved objects exist
	Command string `json:"command"`        // shell command that restores it
}

// Lost returns the lost commits among tips, which are commits that refs and reflogs once contained.
func (at Place) Lost(ctx context.Context, tips []wire.GitTip) (all []Lost, err error) {
	w, err := at.work()
	if err != nil {
		return nil, err
	}
	defer w.root.Close()
	of := map[string][]wire.GitTip{}
	var dirs []string
	for _, t := range tips {
		if of[t.Dir] == nil {
			dirs = append(dirs, t.Dir)
		}
		of[t.Dir] = append(of[t.Dir], t)
	}
	for _, d := range dirs {
		if w.allowed(d+"/HEAD") != nil || !w.alive(d) {
			continue
		}
		lost, err := w.lostOf(ctx, d, of[d])
		if err != nil {
			return all, fmt.Errorf("%s: %w", d, err)
		}
		all = append(all, lost...)
	}
	slices.SortStableFunc(all, func(a, b Lost) int { return b.Until.Compare(a.Until) })
	return all, nil
}

func (w *work) lostOf(ctx context.Context, dir string, tips []wire.GitTip) (all []Lost, err error) {
	ids := map[string]bool{}
	for _, t := range tips {
		ids[t.Commit] = true
	}
	had, err := w.kinds(ctx, dir, true, maps.Keys(ids))
	maps.DeleteFunc(had, func(_, kind string) bool { return kind != "commit" })
	if err != nil || len(had) == 0 {
		return nil, err
	}
	here, err := w.kinds(ctx, dir, false, maps.Keys(had))
	if err != nil {
		return nil, err
	}
	// All stashes except the newest are only in the reflog.
	stashes, _ := w.ask(ctx, dir, true, nil, "rev-list", "-g", "refs/stash", "--")
	var in strings.Builder
	for id := range had {
		in.WriteString(id + "\n")
	}
	for id := range strings.FieldsSeq(stashes) {
		in.WriteString("^" + id + "\n")
	}
	out, err := w.ask(ctx, dir, true, []byte(in.String()), "rev-list", "--parents", "--ignore-missing", "--stdin", "--not", "--all")
	if err != nil {
		return nil, err
	}
	lost, parent := map[string]bool{}, map[string]bool{}
	for l := range strings.Lines(out) {
		for i, id := range strings.Fields(l) {
			if i == 0 {
				lost[id] = true
			} else {
				parent[id] = true
			}
		}
	}
	said, _ := w.ask(ctx, dir, true, nil, "for-each-ref", "--format=%(refname)")
	refs := strings.Fields(said)
	for _, t := range tips {
		ref := strings.HasPrefix(t.Name, "refs/")
		if !lost[t.Commit] || parent[t.Commit] && !(ref && !slices.Contains(refs, t.Name)) {
			continue
		}
		x := Lost{GitTip: t, Gone: here[t.Commit] == ""}
		if s, err := w.ask(ctx, dir, true, nil, "log", "-1", "--format=%s", t.Commit, "--"); err == nil {
			x.Subject = strings.ToValidUTF8(strings.TrimSpace(s), "�")
		}
		x.Command = command(x, refs)
		all = append(all, x)
	}
	return all, nil
}

func command(x Lost, refs []string) string {
	git := "git"
	switch up := path.Dir(x.Dir); {
	case strings.Contains(x.Dir, "/modules/"):
		git += " --git-dir=" + visible.Arg(x.Dir)
	case up != ".":
		git += " -C " + visible.Arg(up)
	}
	free := func(prefix string) string {
		name := strings.TrimPrefix(x.Name, prefix)
		if name == x.Name || slices.Contains(refs, x.Name) {
			name = "lost-" + x.Commit[:7]
		}
		return visible.Arg(name)
	}
	var back string
	switch id := x.Commit[:12]; {
	case x.Name == "refs/stash":
		back = git + " stash store -m " + visible.Arg(x.Subject) + " " + id
	case strings.HasPrefix(x.Name, "refs/tags/"):
		back = git + " tag " + free("refs/tags/") + " " + id
	default:
		back = git + " branch " + free("refs/heads/") + " " + id
	}
	if x.Gone {
		back = "cachebro git back " + x.Commit[:12] + " && " + back
	}
	return back
}

// kinds returns the kinds of the objects that exist. If kept is set, saved objects count.
func (w *work) kinds(ctx context.Context, dir string, kept bool, ids iter.Seq[string]) (map[string]string, error) {
	var in bytes.Buffer
	for id := range ids {
		in.WriteString(id + "\n")
	}
	out, err := w.ask(ctx, dir, kept, in.Bytes(), "cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer")
	kinds := map[string]string{}
	for l := range strings.Lines(out) {
		if id, kind, _ := strings.Cut(strings.TrimSpace(l), " "); kind != "missing" {
			kinds[id] = kind
		}
	}
	return kinds, err
}

// ask runs git in a repository. If kept is set, git also sees the saved copies of lost objects.
func (w *work) ask(ctx context.Context, dir string, kept bool, in []byte, args ...string) (string, error) {
	cmd := w.git(ctx, dir, args...)
	if kept {
		cmd.Env = append(slices.Clip(w.Env), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(w.Kept, gitdir.KeptObjects(dir)))
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		first, _, _ := strings.Cut(string(exit.Stderr), "\n")
		err = errors.New(first)
	}
	return string(out), err
}

// Back copies the missing objects of a commit from the saved copies into its repository. Git itself
// writes them.
func (at Place) Back(ctx context.Context, dir, commit string) error {
	w, err := at.work()
	if err != nil {
		return err
	}
	defer w.root.Close()
	if err := w.allowed(dir + "/objects"); err != nil {
		return err
	}
	list, err := w.ask(ctx, dir, true, nil, "rev-list", "--objects", commit, "--not", "--all")
	if err != nil {
		return err
	}
	var ids strings.Builder
	for l := range strings.Lines(list) {
		id, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		ids.WriteString(id + "\n")
	}
	pack, err := w.ask(ctx, dir, true, []byte(ids.String()), "pack-objects", "--stdout", "-q")
	if err != nil {
		return err
	}
	_, err = w.ask(ctx, dir, false, []byte(pack), "unpack-objects", "-q")
	return err
}
