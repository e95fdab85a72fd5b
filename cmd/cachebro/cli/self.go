package cli

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"cachebro/fusefs/mounts"
)

// A binary inside the project (bin/ of a checkout, node_modules) is read through the mount. If
// mountd died, no successor could be started, because the kernel would read the binary through the
// dead mount. While mountd runs, its open binary would keep the mount busy. So a copy of the binary
// in the state directory serves such a project.

// copyName is the copy's name in a state directory.
const copyName = "cachebro"

// SelfOutside returns the binary for the processes that serve the project at root. If this binary
// is in the project, SelfOutside returns a copy in the directory state, and makes the copy if
// needed.
func (e *Env) SelfOutside(root, state string) (string, error) {
	if !mounts.Within(e.Exe, root) {
		return e.Exe, nil
	}
	in, err := os.Open(e.Exe)
	if err != nil {
		return "", err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return "", err
	}
	name := filepath.Join(state, copyName)
	if old, err := os.Stat(name); err == nil && old.Size() == fi.Size() && old.ModTime().Equal(fi.ModTime()) {
		return name, nil
	}
	out, err := os.CreateTemp(state, copyName+".new")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name()) // fails after the rename, when the temporary name no longer exists
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(out.Name(), 0o755)
	}
	if err == nil {
		err = os.Chtimes(out.Name(), fi.ModTime(), fi.ModTime())
	}
	if err == nil {
		err = os.Rename(out.Name(), name)
	}
	return name, err
}

// serving returns the binary for the daemon of root. If this binary is in the project and the copy
// exists, serving returns the copy.
func (e *Env) serving(root string) string {
	if state, err := e.Paths().State(root); err == nil && mounts.Within(e.Exe, root) {
		if name := filepath.Join(state, copyName); isFile(name) {
			return name
		}
	}
	return e.Exe
}

// LeaveMount restarts this command from the copy if its binary is on the mount at point. Otherwise
// the running binary would keep the mount busy.
func (e *Env) LeaveMount(point, state string) {
	if name := filepath.Join(state, copyName); mounts.Within(e.Exe, point) && isFile(name) {
		_ = syscall.Exec(name, append([]string{name}, os.Args[1:]...), e.Vars) // if this fails, the caller finds the mount busy
	}
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}
