package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"cachebro/store/leaf/text"
)

// Paths holds the environment that determines the user's sockets and state directories. The zero
// value uses the temporary directory and the home directory from passwd.
type Paths struct {
	RuntimeDir string // $XDG_RUNTIME_DIR
	StateHome  string // $XDG_STATE_HOME
	Home       string // $HOME
	TempDir    string // $TMPDIR; "": os.TempDir()
	Override   string // $CACHEBRO_DIR: replaces <state home>/cachebro
}

// maxSocket is the longest socket path, in bytes, that every system accepts. macOS allows 104 bytes
// with the NUL.
const maxSocket = 103

// OutsideRoot is the root of the user's own history, which records changes to files outside
// projects. It is never a project's root.
const OutsideRoot = "/"

// outsideName is the name of the state directory of the user's own history.
const outsideName = "outside"

// Key returns 16 hex digits that identify a root. They are part of the names of its socket and
// state directory. root is absolute and clean, with symlinks resolved.
func Key(root string) string {
	return text.Hash([]byte(root))[:16]
}

// StateBase returns the directory that holds the state directories of all projects.
func (p Paths) StateBase() (string, error) {
	switch {
	case p.Override != "":
		if !filepath.IsAbs(p.Override) {
			return "", Errorf(ErrBadRequest, "export CACHEBRO_DIR=\"$PWD/"+p.Override+"\"", "CACHEBRO_DIR %q is not an absolute path", p.Override)
		}
		return filepath.Clean(p.Override), nil
	case filepath.IsAbs(p.StateHome):
		return filepath.Join(p.StateHome, "cachebro"), nil
	case filepath.IsAbs(p.Home):
		return filepath.Join(p.Home, ".local", "state", "cachebro"), nil
	}
	return "", Errorf(ErrBadRequest, "export HOME or XDG_STATE_HOME", "no home directory is known, so there is no place for the history")
}

// State returns the project's state directory, which need not exist.
func (p Paths) State(root string) (string, error) {
	base, err := p.StateBase()
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(root) {
		return "", Errorf(ErrBadRequest, "", "root %q is not an absolute path", root)
	}
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == '/' || r == 0x7f || r == '�' {
			return '_'
		}
		return r
	}, filepath.Base(root))
	if root == OutsideRoot {
		name = outsideName
	}
	if len(name) > 100 { // NAME_MAX is 255 bytes, including the key
		name = strings.ToValidUTF8(name[:100], "_")
	}
	return filepath.Join(base, name+"-"+Key(root)), nil
}

// MakeState creates the state directory (0700). It returns an error if the root is not UTF-8, because
// JSON cannot carry its path between the processes, and if the directory belongs to another user.
func (p Paths) MakeState(root string) (string, error) {
	if !utf8.ValidString(root) {
		return "", Errorf(ErrBadRequest, "rename that directory", "%s is not UTF-8, and cachebro keeps no history of a directory with such a name", strconv.Quote(root))
	}
	dir, err := p.State(root)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", stateError(dir, err)
	}
	if err := ownDir(dir, false); err != nil {
		return "", err
	}
	return dir, nil
}

func stateError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Errorf(ErrNoSpace, "free some space, or export CACHEBRO_DIR=/a/larger/disk", "make state directory %s: %v", dir, err)
	case errors.Is(err, syscall.EROFS):
		return Errorf(ErrPermission, "if an agent's sandbox forbids it: cachebro init makes an exception in Claude Code's sandbox, a rule in ~/.codex/rules makes one in Codex's (guide: sandboxes); otherwise export CACHEBRO_DIR to a directory that you can write to",
			"make state directory %s: %v", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return Errorf(ErrPermission, "export CACHEBRO_DIR to a directory that you can write to", "make state directory %s: %v", dir, err)
	}
	return fmt.Errorf("make state directory %s: %w", dir, err)
}

// ownDir creates dir (0700), or checks that it is a directory of this user that nobody else can
// enter. If others can enter it and strict is set, ownDir returns an error, because another user
// may have put a socket there. Without strict it removes their permissions.
func ownDir(dir string, strict bool) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return stateError(dir, err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return stateError(dir, err)
	}
	if !fi.IsDir() {
		return Errorf(ErrForeign, "move it away", "%s is not a directory", dir)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != uint32(os.Getuid()) {
		return Errorf(ErrForeign, "move it away, or run cachebro as its owner", "%s belongs to another user", dir)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		if strict {
			return Errorf(ErrForeign, "look at what is in it, then chmod 700 "+dir, "%s is open to other users (mode %04o)", dir, fi.Mode().Perm())
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return stateError(dir, err)
		}
	}
	return nil
}

// socketDirs lists the directories where the socket may be, best first. Another user can block the
// one in the temporary directory by creating it first. The last one is next to the state and cannot
// be blocked.
func (p Paths) socketDirs() []string {
	var dirs []string
	if filepath.IsAbs(p.RuntimeDir) {
		// After su or sudo -E, XDG_RUNTIME_DIR names another user's directory.
		var st syscall.Stat_t
		if syscall.Stat(p.RuntimeDir, &st) == nil && st.Uid == uint32(os.Getuid()) {
			dirs = append(dirs, filepath.Join(p.RuntimeDir, "cachebro"))
		}
	}
	tmp := p.TempDir
	if tmp == "" {
		tmp = os.TempDir()
	}
	ours := fmt.Sprintf("cachebro-%d", os.Getuid())
	dirs = append(dirs, filepath.Join(tmp, ours))
	if len(tmp) > 50 { // possibly too long for a socket in it
		dirs = append(dirs, filepath.Join("/tmp", ours))
	}
	if base, err := p.StateBase(); err == nil {
		dirs = append(dirs, filepath.Join(base, "run"))
	}
	return dirs
}

// MakeRuntime creates a directory next to the sockets for files that exist while a process runs.
func (p Paths) MakeRuntime(name string) (string, error) {
	var failed error
	for _, dir := range p.socketDirs() {
		err := ownDir(dir, true)
		if err == nil {
			dir = filepath.Join(dir, name)
			err = ownDir(dir, false)
			if err == nil {
				return dir, nil
			}
		}
		failed = errors.Join(failed, err)
	}
	return "", failed
}

// ourSocketDirs returns the socketDirs that belong to this user, as ownDir checks.
func (p Paths) ourSocketDirs() []string {
	return slices.DeleteFunc(p.socketDirs(), func(dir string) bool {
		fi, err := os.Lstat(dir)
		if err != nil || !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 {
			return true
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		return !ok || st.Uid != uint32(os.Getuid())
	})
}

// Sockets lists the sockets at which a client looks for a project's daemon, best first. The sockets
// derived from the client's environment come first. Then comes the socket that the daemon wrote
// into the state directory, because the daemon may have been started with another environment.
func (p Paths) Sockets(root string) []string { return p.sockets(root, p.socketName(root), socketNote) }

func (p Paths) sockets(root, name, note string) []string {
	var all []string
	for _, d := range p.ourSocketDirs() {
		if s := filepath.Join(d, name); len(s) <= maxSocket {
			all = append(all, s)
		}
	}
	if state, err := p.State(root); err == nil {
		if b, err := os.ReadFile(filepath.Join(state, note)); err == nil {
			s := strings.TrimSpace(string(b))
			if filepath.IsAbs(s) && len(s) <= maxSocket && (len(all) == 0 || s != all[0]) {
				all = append(all, s)
			}
		}
	}
	return all
}

// socketNote is the file in the state directory that names the socket.
const socketNote = "socket"

// socketName returns the name of the socket of a project's daemon. A user may have several state
// bases, each with its own history of files outside projects.
func (p Paths) socketName(root string) string {
	if base, err := p.StateBase(); err == nil && root == OutsideRoot {
		root = base + root
	}
	return Key(root) + ".sock"
}

// NetSocket returns the path of the socket of the net, the recorder of "cachebro run" for changes
// that do not go through a mount. It is in the state base, unless that makes its path too long.
func (p Paths) NetSocket() (string, error) {
	base, err := p.StateBase()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "run")
	if name := filepath.Join(dir, "net.sock"); len(name) <= maxSocket {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return "", stateError(base, err)
		}
		return name, ownDir(dir, true)
	}
	dir, err = p.MakeRuntime("net")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, Key(base)[:8]+".sock"), nil
}

// Find returns the nearest of dir and its ancestors, except the root directory, that has a socket
// or a state directory. dir is absolute. Find does not access dir itself or its subtree, so it does
// not hang if a mount on dir does.
func (p Paths) Find(dir string) (root string, ok bool) {
	dirs := p.ourSocketDirs()
	for d := filepath.Clean(dir); filepath.IsAbs(d) && d != OutsideRoot; d = filepath.Dir(d) {
		if p.hasHistory(d, dirs) {
			return d, true
		}
	}
	return "", false
}

// HasHistory reports whether a directory, absolute and clean, has a socket or a state directory. The
// root directory has none.
func (p Paths) HasHistory(dir string) bool { return p.hasHistory(dir, p.ourSocketDirs()) }

func (p Paths) hasHistory(dir string, socketDirs []string) bool {
	if dir == OutsideRoot {
		return false
	}
	for _, s := range socketDirs {
		if _, err := os.Lstat(filepath.Join(s, p.socketName(dir))); err == nil {
			return true
		}
	}
	state, err := p.State(dir)
	if err == nil {
		_, err = os.Lstat(state)
	}
	return err == nil
}

// LogFile returns the daemon's log in a state directory.
func LogFile(state string) string { return filepath.Join(state, "daemon.log") }

// GitDir returns the directory in a state directory for saved copies of files that were lost from
// the project's git directories.
func GitDir(state string) string { return filepath.Join(state, "git") }

// SpoolDir returns the spool in a state directory.
func SpoolDir(state string) string { return filepath.Join(state, "spool") }

// ReadJSON reads a small file of a state directory.
func ReadJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// WriteJSON replaces a small file of a state directory atomically. If several processes write, the
// last one wins.
func WriteJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ") // people read some of them
	if err != nil {
		return err
	}
	tmp := name + "." + strconv.Itoa(os.Getpid())
	err = os.WriteFile(tmp, append(b, '\n'), 0o600)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// AppendTo appends a text to a file. The file and its directory are created if they do not exist.
func AppendTo(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
