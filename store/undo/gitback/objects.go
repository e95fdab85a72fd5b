package gitback

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Missing returns the number of object files that a plan would restore.
func (at Place) Missing(ctx context.Context, p wire.GitPlan) (n int, err error) {
	w, err := at.work()
	if err != nil {
		return 0, err
	}
	defer w.root.Close()
	for _, d := range p.Dirs {
		lost, err := w.lost(ctx, d, p.Since)
		if err != nil {
			return 0, err
		}
		n += len(lost)
	}
	return n, nil
}

// objects restores the objects that a git directory has lost since a time.
func (w *work) objects(ctx context.Context, dir string, since time.Time) error {
	lost, err := w.lost(ctx, dir, since)
	if err != nil {
		return err
	}
	for _, rel := range slices.Backward(lost) { // git finds a pack by its .idx file, so that comes after the .pack file
		if err := ctx.Err(); err != nil {
			return err
		}
		to := path.Join(dir, "objects", rel)
		if err := w.object(filepath.Join(w.Kept, gitdir.KeptObjects(dir), rel), to); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		w.res.Objects++
	}
	return nil
}

// lost returns the files of objects that were removed since a time and exist nowhere else in the
// git directory.
func (w *work) lost(ctx context.Context, dir string, since time.Time) ([]string, error) {
	if err := w.allowed(dir + "/objects"); err != nil {
		return nil, err
	}
	from := filepath.Join(w.Kept, gitdir.KeptObjects(dir))
	var lost []string
	_ = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || d.IsDir() || unix.Lstat(p, &st) != nil || st.Ctim.Nano() < since.UnixNano() {
			return nil
		}
		rel := filepath.ToSlash(strings.TrimPrefix(p, from+string(filepath.Separator)))
		if _, err := w.root.Lstat(path.Join(dir, "objects", rel)); err != nil {
			lost = append(lost, rel)
		}
		return nil
	})
	lost = slices.DeleteFunc(lost, func(rel string) bool { // without its pack file, a pack's other files are useless
		if !strings.HasPrefix(rel, "pack/") || strings.HasSuffix(rel, ".pack") {
			return false
		}
		pack := stem(rel) + ".pack"
		_, err := w.root.Lstat(path.Join(dir, "objects", pack))
		return err != nil && !slices.Contains(lost, pack)
	})
	if len(lost) == 0 {
		return nil, nil
	}
	if need, whole := w.missing(ctx, dir, from, lost); !whole {
		lost = slices.DeleteFunc(lost, func(rel string) bool { return !need[stem(rel)] })
	}
	return lost, nil
}

// stem returns the name of a pack without its endings.
func stem(rel string) string {
	if strings.HasPrefix(rel, "pack/") {
		return strings.TrimSuffix(rel, path.Ext(rel))
	}
	return rel
}

func (w *work) object(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return err
	}
	of := owner{st.Uid, st.Gid}
	d, _, _ := gitdir.Split(to)
	if _, ok := w.owner[d]; !ok {
		w.owner[d] = of
	}
	return w.write(to, in, uint32(st.Mode), of)
}

// missing asks git which of the lost objects are missing. If whole is set, all are, because there
// is no repository to ask.
func (w *work) missing(ctx context.Context, dir, from string, lost []string) (need map[string]bool, whole bool) {
	if !w.alive(dir) {
		return nil, true
	}
	of := map[string][]string{} // object → stems
	packs := map[string]bool{}
	for _, rel := range lost {
		switch {
		case !strings.HasPrefix(rel, "pack/"):
			id := strings.ReplaceAll(rel, "/", "")
			of[id] = append(of[id], rel)
		case strings.HasSuffix(rel, ".idx"):
			packs[stem(rel)] = true
			for _, id := range w.listed(ctx, filepath.Join(from, rel)) {
				of[id] = append(of[id], stem(rel))
			}
		}
	}
	has, err := w.kinds(ctx, dir, false, maps.Keys(of))
	if err != nil {
		return nil, true
	}
	need = map[string]bool{}
	for id, stems := range of {
		for _, st := range stems {
			need[st] = need[st] || has[id] == ""
		}
	}
	for _, rel := range lost { // packs whose index was not lost
		if strings.HasPrefix(rel, "pack/") && !packs[stem(rel)] {
			if _, err := w.root.Lstat(path.Join(dir, "objects", stem(rel)+".idx")); err == nil {
				need[stem(rel)] = true
			}
		}
	}
	return need, false
}

func (w *work) listed(ctx context.Context, idx string) (ids []string) {
	f, err := os.Open(idx)
	if err != nil {
		return nil
	}
	defer f.Close()
	cmd := gitdir.Command(ctx, w.Base, "show-index")
	cmd.Env, cmd.Stdin = w.Env, f
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(out)) {
		if part := strings.Fields(l); len(part) >= 2 {
			ids = append(ids, part[1])
		}
	}
	return ids
}

// alive reports whether git accepts the directory as a repository.
func (w *work) alive(dir string) bool {
	return gitdir.Is(func(name string) (fs.FileInfo, error) { return w.root.Lstat(path.Join(dir, name)) })
}

// git returns a git command that examines a repository. It runs no program from the repository's
// configuration.
func (w *work) git(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := gitdir.Command(ctx, filepath.Join(w.Base, dir), append([]string{"--git-dir=."}, args...)...)
	cmd.Env = w.Env
	return cmd
}

// unreachable returns the steps that would make a ref point to a missing commit.
func (w *work) unreachable(ctx context.Context, steps []wire.GitStep) map[string]bool {
	bad := map[string]bool{}
	of := map[string]map[string][]string{} // dir → commit → paths
	for _, s := range steps {
		dir, rest, _ := gitdir.Split(string(s.Path))
		base := path.Base(rest)
		if s.Do != "write" || !strings.HasPrefix(rest, "refs/") && base != "HEAD" || !w.alive(dir) {
			continue
		}
		id := strings.TrimSpace(string(s.Content))
		if !gitdir.IsID(id) {
			continue
		}
		if of[dir] == nil {
			of[dir] = map[string][]string{}
		}
		of[dir][id] = append(of[dir][id], string(s.Path))
	}
	for dir, ids := range of {
		has, err := w.kinds(ctx, dir, false, maps.Keys(ids))
		for id, paths := range ids {
			for _, p := range paths {
				bad[p] = bad[p] || err == nil && has[id] == ""
			}
		}
	}
	return bad
}
