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

// doctorSource looks at where the project lies.
func doctorSource(e *cli.Env, t cli.Target) []Finding {
	if err := mounting.RefuseSource(t.Root); err != nil {
		return []Finding{wrongErr("file system", "", err)}
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return []Finding{wrongErr("file system", "", err)}
	}
	// The source of a mount in place lies below the mount. Its parent is on the same
	// file system, unless the project is a mount point of its own.
	dir := t.Root
	if _, ok := mounts.At(overlays, t.Root); ok {
		dir = filepath.Dir(t.Root)
	}
	name := mounting.FileSystem(dir)
	var out []Finding
	switch name {
	case "nfs", "cifs", "smb2", "9p":
		f := good("file system", "%s: what other machines change there is noticed late, and their old contents are not kept", name)
		out = append(out, f)
	default:
		out = append(out, good("file system", "%s", name))
	}
	if f, ok := worktreeFinding(e, t); ok {
		out = append(out, f)
	}
	return out
}

// worktreeFinding explains when the working directory belongs to another work tree than
// the project: a mount covers the top of a work tree.
func worktreeFinding(e *cli.Env, t cli.Target) (Finding, bool) {
	if e.Dir == "" {
		return Finding{}, false
	}
	top, ok := mounts.Top(e.Dir)
	switch {
	case !ok || top == t.Root || top == t.Point:
	case mounts.Within(top, t.Base()):
		return good("worktree", "%s is a work tree inside of %s, watched with it, with its own rules", cli.Quote(top), cli.Quote(t.Base())), true
	case mounts.Within(t.Base(), top):
		f := good("worktree", "%s is a part of the work tree %s: git does not see its .git through such a mount", cli.Quote(t.Base()), cli.Quote(top))
		f.Fix = "cachebro umount " + cli.Arg(t.Base()) + " && cachebro mount " + cli.Arg(top)
		return f, true
	}
	return Finding{}, false
}

// countBelow counts files below a directory until limit.
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

// many returns "120 files", or "1000+ files" from the limit on.
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
