package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/text"
)

func doctorSource(e *cli.Env, t cli.Target) []Finding {
	if err := mounting.RefuseSource(t.Root); err != nil {
		return []Finding{wrongErr("file system", "", err)}
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return []Finding{wrongErr("file system", "", err)}
	}
	// Ask about the parent of the source, because a mount covers the source itself. The parent is
	// on the same file system, unless the project is itself a mount point.
	dir := t.Root
	if _, ok := mounts.At(overlays, t.Root); ok {
		dir = filepath.Dir(t.Root)
	}
	name := mounting.FileSystem(dir)
	var out []Finding
	switch name {
	case "nfs", "cifs", "smb2", "9p":
		f := good("file system", "%s: changes by other machines are noticed late, and the contents that they replace are not saved", name)
		out = append(out, f)
	default:
		out = append(out, good("file system", "%s", name))
	}
	if f, ok := worktreeFinding(e, t); ok {
		out = append(out, f)
	}
	return out
}

// worktreeFinding reports a working directory that belongs to another git work tree than the
// project. Usually a mount covers exactly one whole work tree.
func worktreeFinding(e *cli.Env, t cli.Target) (Finding, bool) {
	if e.Dir == "" {
		return Finding{}, false
	}
	top, ok := mounts.Top(e.Dir)
	switch {
	case !ok || top == t.Root || top == t.Point:
	case mounts.Within(top, t.Base()):
		return good("worktree", "%s is a work tree inside of %s, and is watched with it by its own ignore rules", cli.Quote(top), cli.Quote(t.Base())), true
	case mounts.Within(t.Base(), top):
		f := good("worktree", "%s is only a part of the work tree %s, so git does not find its .git through this mount", cli.Quote(t.Base()), cli.Quote(top))
		f.Fix = "cachebro umount " + cli.Arg(t.Base()) + " && cachebro mount " + cli.Arg(top)
		return f, true
	}
	return Finding{}, false
}

// countBelow counts the files in the subtree of a directory, but at most limit.
func countBelow(dir string, limit int) (n int) {
	stop := errors.New("enough")
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if !d.IsDir() {
			n++
		}
		if n >= limit {
			return stop
		}
		return nil
	})
	return n
}

// many formats a count such as "120 files", or "1000+ files" if n has reached the limit.
func many(n, limit int) string {
	if n >= limit {
		return fmt.Sprintf("%d+ files", limit)
	}
	return text.Count(n, "file")
}

func joinSome(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(", and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
