package mounts

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Identity identifies a project independently of its path. The inode of its directory stays the
// same when the directory is renamed. The first commit of its repository stays the same when the
// directory is copied to another disk.
type Identity struct {
	Root   string `json:"root"` // the path at which the project was last seen
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Birth  int64  `json:"birth,omitempty"`        // ns since the epoch
	Commit string `json:"first_commit,omitempty"` // "" without git
	Common string `json:"git_common,omitempty"`   // the repository shared by all worktrees
}

// identityFile is the name of the file with the Identity in a project's state directory.
const identityFile = "identity.json"

// commitWait bounds git's search for the first commit. If the search takes longer, Commit is set to
// unknownCommit, so that later mounts do not try again.
const (
	commitWait    = 2 * time.Second
	unknownCommit = "?"
)

// Identify returns the identity of a directory that no mount covers. If known has the first commit,
// it is copied from there.
func Identify(root string, known Identity) (Identity, error) {
	var st sys.Stat
	if err := sys.StatAt(unix.AT_FDCWD, root, &st); err != nil {
		return Identity{}, err
	}
	id := Identity{Root: root, Dev: st.Dev, Ino: st.Ino, Birth: st.Birth, Commit: known.Commit, Common: commonDir(root)}
	if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil && id.Commit == "" {
		ctx, cancel := context.WithTimeout(context.Background(), commitWait)
		defer cancel()
		out, err := gitdir.Command(ctx, root, "rev-list", "--max-parents=0", "HEAD").Output()
		switch lines := bytes.Fields(out); {
		case ctx.Err() != nil:
			id.Commit = unknownCommit
		case err == nil && len(lines) > 0:
			id.Commit = string(lines[len(lines)-1])
		}
	}
	return id, nil
}

// SameDir reports whether id and o identify the same directory.
func (id Identity) SameDir(o Identity) bool {
	return id.Ino != 0 && id.Dev == o.Dev && id.Ino == o.Ino && id.Birth == o.Birth
}

// ReadIdentity returns the identity stored in a state directory, or the zero value.
func ReadIdentity(state string) (id Identity) {
	if wire.ReadJSON(filepath.Join(state, identityFile), &id) != nil {
		return Identity{}
	}
	return id
}

func (id Identity) Write(state string) error {
	if ReadIdentity(state) == id {
		return nil
	}
	return wire.WriteJSON(filepath.Join(state, identityFile), id)
}

// states returns the state directories in base. It does not use filepath.Glob, because base may
// contain pattern characters.
func states(base string) ([]string, error) {
	all, err := fs.Glob(os.DirFS(base), "*-????????????????")
	for i, name := range all {
		all[i] = filepath.Join(base, name)
	}
	return all, err
}

// Siblings returns the state directories in base of other worktrees of the same repository.
func Siblings(base, state string) []string {
	id := ReadIdentity(state)
	if id.Common == "" {
		return nil
	}
	all, _ := states(base)
	return slices.DeleteFunc(all, func(s string) bool { return s == state || ReadIdentity(s).Common != id.Common })
}

// MovedFrom finds the state directory in base of a project that was moved or renamed to id.Root. It
// returns only a project whose old path no longer exists.
func MovedFrom(base string, id Identity) (old string, ok bool) {
	all, err := states(base)
	if err != nil {
		return "", false
	}
	for _, s := range all {
		was := ReadIdentity(s)
		sameCommit := was.Commit == id.Commit && len(was.Commit) > len(unknownCommit)
		if was.Root == "" || was.Root == id.Root || !was.SameDir(id) && !sameCommit {
			continue
		}
		if _, err := os.Lstat(was.Root); os.IsNotExist(err) {
			if was.SameDir(id) {
				return was.Root, true
			}
			old, ok = was.Root, true
		}
	}
	return old, ok
}
