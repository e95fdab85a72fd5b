package clients

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// maxConfig is the size in bytes above which a configuration file is not touched.
const maxConfig = 16 << 20

// Change is what init or uninit does to one file. If Err is set, the file is not changed.
type Change struct {
	Title  string // for people: "Claude Code"
	Path   string
	Before []byte // nil if the file does not exist
	After  []byte // nil if the file is to be removed
	Err    error
	Hint   string
	Note   string // what the user has to do in the client, usually ""

	unit   string // for init, the client's title; if one of its files cannot be written, none is
	within string // the project that the file belongs to, in which no link is followed; "" for a user's own file
	target string // Path with symlinks resolved
	mode   fs.FileMode
	record *backup // the backup to store with this change; nil deletes the stored one
}

// None reports whether c changes nothing.
func (c Change) None() bool {
	return c.Err != nil || (c.Before == nil) == (c.After == nil) && bytes.Equal(c.Before, c.After)
}

// backup is a file's content before init, stored under Setup.Backups for uninit to restore.
type backup struct {
	Path     string `json:"path"`
	Existed  bool   `json:"existed"`
	Original []byte `json:"original"`
	Written  string `json:"written"` // hex SHA-256 of what init wrote
	// Dirs are the directories that init made for the file, outermost first.
	Dirs []string `json:"dirs,omitempty"`
}

// PlanInit returns the changes that init would make for the named clients, or for all clients in
// use if names is nil. It writes nothing.
func PlanInit(s Setup, names []string) ([]Change, error) {
	changes, err := plan(s, names, func(s Setup, f file, c *Change) {
		base, existed := c.Before, c.Before != nil
		if b, ok := s.backupOf(f.path); ok {
			if b.Written == text.Hash(c.Before) && existed {
				base, existed = b.original(), b.Existed
			} else if existed && b.Original != nil {
				// The file was edited after init wrote it. So base is what uninit would leave: the
				// file without our entries.
				if clean, err := f.edit.Remove(c.Before, b.Original); err == nil {
					base = clean
				}
			}
		}
		// Keep an entry that is already there, whatever it contains.
		if existed || c.Before != nil {
			after, err := f.edit.Add(c.Before)
			if err != nil {
				c.fail(err)
				return
			}
			if bytes.Equal(after, c.Before) {
				c.After = c.Before
				return
			}
		}
		after, err := f.edit.Add(base)
		if err != nil {
			c.fail(err)
			return
		}
		c.After = after
		c.record = &backup{Path: f.path, Existed: existed, Original: base, Written: text.Hash(after), Dirs: missingDirs(filepath.Dir(c.target))}
		if b, ok := s.backupOf(f.path); ok {
			c.record.Dirs = append(b.Dirs, c.record.Dirs...)
		}
	})
	wholeOrNone(changes)
	return changes, err
}

// wholeOrNone cancels the changes to all files of a client if one cannot be changed. A server
// without its hooks, or hooks without the server, would only half work.
func wholeOrNone(changes []Change) {
	bad := map[string]string{}
	for i, c := range changes {
		changes[i].unit = c.Title
		if c.Err != nil {
			bad[c.Title] = c.Path
		}
	}
	for i := range changes {
		c := &changes[i]
		if other := bad[c.Title]; other != "" && !c.None() {
			c.fail(fmt.Errorf("it needs %s, which cannot be changed", other))
			c.Hint = ""
		}
	}
}

// PlanUninit returns the changes that uninit would make for the named clients, or for all clients
// if names is nil. It writes nothing.
func PlanUninit(s Setup, names []string) ([]Change, error) {
	if names == nil {
		names = Clients()
	}
	return plan(s, names, func(s Setup, f file, c *Change) {
		c.After = c.Before
		if c.Before == nil {
			return
		}
		b, known := s.backupOf(f.path)
		if known && b.Written == text.Hash(c.Before) {
			c.After = b.original()
			return
		}
		after, err := f.edit.Remove(c.Before, b.Original)
		if err != nil {
			c.fail(err)
			return
		}
		c.After = after
		if known && !b.Existed && emptyConfig(after) {
			c.After = nil
		}
	})
}

func (b backup) original() []byte {
	if !b.Existed {
		return nil
	}
	if b.Original == nil {
		return []byte{}
	}
	return b.Original
}

// emptyConfig reports whether a file has no entries.
func emptyConfig(b []byte) bool {
	t := bytes.Join(bytes.Fields(b), nil)
	return len(t) == 0 || string(t) == "{}"
}

func (c *Change) fail(err error) {
	c.After, c.record = c.Before, nil
	c.Err = fmt.Errorf("%s was left alone: %w", c.Path, err)
	c.Hint = cmp.Or(c.Hint, "repair the file and run cachebro init again")
}

func plan(s Setup, names []string, decide func(Setup, file, *Change)) ([]Change, error) {
	if names == nil {
		names = FoundClients(s)
	}
	var specs []clientSpec
	for _, name := range names {
		spec, err := clientNamed(name)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	if s.AgentsMD != "" {
		specs = append(specs, clientSpec{name: "agents-md", title: "AGENTS.md", files: agentsFiles})
	}
	if s.Git.Config != "" {
		specs = append(specs, clientSpec{name: "git", title: "git", files: gitFiles})
	}
	var out []Change
	for _, spec := range specs {
		for _, f := range spec.files(s) {
			c := Change{Title: spec.title, Path: f.path, Note: spec.note, within: s.within(f.path)}
			c.load()
			if c.Before == nil && (s.Project != "" || f.path == s.AgentsMD) {
				c.mode = 0o644 // shared with others; a user's own file may hold keys
			}
			if c.Err == nil {
				decide(s, f, &c)
			}
			if !c.None() {
				c.checkWritable()
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// load reads the file and resolves links.
func (c *Change) load() {
	c.target, c.mode = c.Path, 0o600
	if c.within == "" {
		if real, err := filepath.EvalSymlinks(c.Path); err == nil {
			c.target = real
		} else if l, lerr := os.Lstat(c.Path); lerr == nil && l.Mode()&fs.ModeSymlink != 0 {
			c.fail(errors.New("it is a symlink to a file that does not exist"))
			return
		}
	}
	before, fi, err := c.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.fail(err)
	default:
		c.mode, c.Before = fi.Mode().Perm(), before
	}
}

// checkWritable sets an error, with a hint, for a change that could not be written.
func (c *Change) checkWritable() {
	at := c.target
	for _, err := os.Lstat(at); err != nil && at != filepath.Dir(at); _, err = os.Lstat(at) {
		at = filepath.Dir(at)
	}
	switch err := unix.Access(at, unix.W_OK); {
	case errors.Is(err, unix.EROFS):
		c.Hint = "mount its file system writable, or configure only the other clients: cachebro init --client …"
		c.fail(errors.New("its file system is read-only"))
	case err != nil || c.Before != nil && c.mode&0o200 == 0:
		c.Hint = "chmod u+w " + ShellQuote(at)
		c.fail(errors.New("it is read-only"))
	}
}

func (c *Change) read() ([]byte, fs.FileInfo, error) {
	dir, name, err := c.place(false)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	return readIn(dir, name)
}

// Apply writes the changes of a plan, each atomically. It does not write a file that changed since
// the plan was made. It continues after an error and returns all errors. If one file of a client
// fails, it restores the client's other files.
func Apply(s Setup, changes []Change) error {
	var errs []error
	bad := map[string]bool{}
	var back []func() error
	for i, c := range changes {
		if i == 0 || c.unit == "" || c.unit != changes[i-1].unit {
			back = nil
		}
		if c.None() || c.unit != "" && bad[c.unit] {
			continue
		}
		old, known := s.backupOf(c.Path)
		err := c.apply(s)
		if err == nil {
			c.Before, c.After = c.After, c.Before
			c.record = nil
			if known {
				c.record = &old
			}
			back = append(back, func() error { return c.apply(s) })
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", c.Path, err))
		if c.unit != "" {
			bad[c.unit] = true
			for _, f := range slices.Backward(back) {
				errs = append(errs, f())
			}
		}
	}
	return errors.Join(errs...)
}

// within returns the project that a file belongs to, or "" for a user's own file.
func (s Setup) within(path string) string {
	if path == s.AgentsMD {
		return filepath.Dir(path)
	}
	if rel, err := filepath.Rel(s.Project, path); s.Project != "" && err == nil && filepath.IsLocal(rel) {
		return s.Project
	}
	return ""
}

func (c Change) apply(s Setup) error {
	now, _, err := c.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, c.Before) || (err == nil) != (c.Before != nil) {
		return errors.New("it was changed by another program; run the command again")
	}
	if c.record != nil {
		if err := s.saveBackup(*c.record); err != nil {
			return fmt.Errorf("save a backup: %w", err)
		}
	}
	dir, name, err := c.place(c.After != nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	if c.After == nil {
		err = dir.Remove(name)
		b, _ := s.backupOf(c.Path)
		for i := len(b.Dirs) - 1; i >= 0; i-- {
			_ = os.Remove(b.Dirs[i]) // only works if it is empty
		}
	} else {
		err = replaceIn(dir, name, c.After, c.mode)
	}
	if err == nil && c.record == nil {
		err = s.forgetBackup(c.Path)
	}
	return err
}

// missingDirs lists those of dir and its ancestors that do not exist, outermost first.
func missingDirs(dir string) []string {
	var out []string
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		out = append([]string{dir}, out...)
	}
	return out
}

func (s Setup) backupFile(path string) string {
	return filepath.Join(s.Backups, filepath.Base(path)+"-"+text.Hash([]byte(path))[:16]+".json")
}

func (s Setup) backupOf(path string) (backup, bool) {
	var b backup
	if wire.ReadJSON(s.backupFile(path), &b) != nil || b.Path != path {
		return backup{}, false
	}
	return b, true
}

func (s Setup) saveBackup(b backup) error {
	if err := os.MkdirAll(s.Backups, 0o700); err != nil {
		return err
	}
	return wire.WriteJSON(s.backupFile(b.Path), b)
}

func (s Setup) forgetBackup(path string) error {
	if err := os.Remove(s.backupFile(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(s.Backups) // only works if it is empty
	return nil
}
