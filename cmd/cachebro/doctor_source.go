package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"cachebro/fusefs/mounts"
)

// refuseSource says no to what can be mounted but would not be right: of a
// Windows drive below WSL neither the changes that Windows programs make are
// seen nor are hard links, modes and renames what they are on Linux.
func refuseSource(root string) error {
	if isWSL() && fileSystem(root) == "9p" {
		return hintf("move the project into the Linux file system: cp -a "+arg(root)+" ~/ && cd ~/"+arg(filepath.Base(root)),
			"%s lies on a Windows drive (9p): what Windows programs change there is not seen, and names and modes are not those of Linux", quote(root))
	}
	return nil
}

// doctorSource looks at where the project lies.
func (e *env) doctorSource(t target) []finding {
	if err := refuseSource(t.root); err != nil {
		return []finding{wrongErr("file system", "", err)}
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return []finding{wrongErr("file system", "", err)}
	}
	// Of a mount in place the source lies below: its parent's file system is
	// the same one, unless the project is a mount point of its own.
	dir := t.root
	if _, ok := mounts.At(overlays, t.root); ok {
		dir = filepath.Dir(t.root)
	}
	name := fileSystem(dir)
	var out []finding
	switch name {
	case "nfs", "cifs", "smb2", "9p":
		f := good("file system", "%s: what other machines change there is noticed late, and their old contents are not kept", name)
		out = append(out, f)
	default:
		out = append(out, good("file system", "%s", name))
	}
	if f, ok := e.worktreeFinding(t); ok {
		out = append(out, f)
	}
	return out
}

// worktreeFinding tells of linked worktrees and of sub-directories: what is
// mounted is the top of the work tree that one stands in.
func (e *env) worktreeFinding(t target) (finding, bool) {
	if e.dir == "" {
		return finding{}, false
	}
	top, ok := mounts.Top(e.dir)
	switch {
	case !ok || top == t.root || top == t.point:
	case mounts.Within(top, t.base()):
		return good("worktree", "%s is a work tree inside of %s, watched with it, with its own rules", quote(top), quote(t.base())), true
	case mounts.Within(t.base(), top):
		f := good("worktree", "%s is a part of the work tree %s: git does not see its .git through such a mount", quote(t.base()), quote(top))
		f.Fix = "cachebro umount " + arg(t.base()) + " && cachebro mount " + arg(top)
		return f, true
	}
	return finding{}, false
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

// many is "120 files", "1000+ files".
func many(n, limit int) string {
	if n >= limit {
		return fmt.Sprintf("%d+ files", limit)
	}
	return count(n, "file")
}

func joinSome(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(", and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
