package mounts

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cachebro/store/leaf/gitdir"
)

// Identity identifies a project independently of its path: by the inode of the directory, which
// stays the same when the directory is renamed, and by the first commit of its repository, which
// stays the same when the directory is copied to another disk, too.
type Identity struct {
	Root   string `json:"root"` // the path at which the project was last seen
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	Birth  int64  `json:"birth,omitempty"`        // ns since the epoch
	Commit string `json:"first_commit,omitempty"` // "" without git
	Common string `json:"git_common,omitempty"`   // the repository that all its worktrees share
}

// identityFile is the name of the file with the Identity in a project's state directory.
const identityFile = "identity.json"

// commitWait bounds git's walk to the first commit. If the walk takes longer, Commit is set to
// unknownCommit, so that later mounts do not try it again.
const (
	commitWait    = 2 * time.Second
	unknownCommit = "?"
)

// Identify looks at a directory that is not covered by a mount. If known has the first
// commit, it is not looked up again.
func Identify(root string, known Identity) (Identity, error) {
	id := Identity{Root: root, Commit: known.Commit}
	fi, err := os.Stat(root)
	if err != nil {
		return id, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id.Dev, id.Ino = uint64(st.Dev), st.Ino
	}
	id.Birth, id.Common = birth(root), commonDir(root)
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

// SameDir reports whether both are the same directory.
func (id Identity) SameDir(o Identity) bool {
	return id.Ino != 0 && id.Dev == o.Dev && id.Ino == o.Ino && id.Birth == o.Birth
}

// ReadIdentity returns the identity stored in a state directory, or the zero value if there is
// none.
func ReadIdentity(state string) (id Identity) {
	b, err := os.ReadFile(filepath.Join(state, identityFile))
	if err != nil || json.Unmarshal(b, &id) != nil {
		return Identity{}
	}
	return id
}

// Write stores the identity in a state directory if it differs from the stored one.
func (id Identity) Write(state string) error {
	if ReadIdentity(state) == id {
		return nil
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	tmp := filepath.Join(state, identityFile+".new")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(state, identityFile))
}

// states returns the state directories in base. It does not use filepath.Glob, because the path of
// base may contain characters that have a meaning in patterns.
func states(base string) ([]string, error) {
	all, err := fs.Glob(os.DirFS(base), "*-????????????????")
	for i, name := range all {
		all[i] = filepath.Join(base, name)
	}
	return all, err
}

// Siblings returns the state directories in base that belong to other worktrees of the
// same repository.
func Siblings(base, state string) []string {
	id := ReadIdentity(state)
	if id.Common == "" {
		return nil
	}
	all, _ := states(base)
	return slices.DeleteFunc(all, func(s string) bool { return s == state || ReadIdentity(s).Common != id.Common })
}

// MovedFrom looks among the state directories in base for that of a project which was moved or
// renamed to id.Root. The old path of such a project must not exist any more.
func MovedFrom(base string, id Identity) (old string, ok bool) {
	all, err := states(base)
	if err != nil {
		return "", false
	}
	for _, s := range all {
		was := ReadIdentity(s)
		if was.Root == "" || was.Root == id.Root || !was.SameDir(id) && (len(was.Commit) <= len(unknownCommit) || was.Commit != id.Commit) {
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
