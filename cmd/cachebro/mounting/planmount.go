package mounting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/fusefs/outside"
	"cachebro/store/leaf/text"
)

// PlannedMount is a mount that passed all checks.
type PlannedMount struct {
	supervisor.Config
	Notes   []string
	Already bool // it is already mounted, and the mount answers
	First   bool // the project has no history yet
	Mountd  int  // mountd's pid, if it is already mounted
	// Elsewhere says which other history has the project's changes, if it is already mounted and its
	// history is not that of this user and environment.
	Elsewhere error
}

// PlanMount decides what to mount where. If the mount cannot work, PlanMount returns an error with
// the reason before it creates anything.
func PlanMount(e *cli.Env, dir string, f MountFlags) (m PlannedMount, err error) {
	asked, err := ExistingDir(e, dir)
	if err != nil {
		return m, err
	}
	m.Root = asked
	if top, ok := mounts.Top(asked); ok && top != asked && !f.Exact {
		m.Root = top
		m.Notes = append(m.Notes, fmt.Sprintf("mounting %s, the top level of this git work tree (--exact mounts %s itself)", cli.Quote(top), cli.Quote(asked)))
	}
	m.Mountpoint = m.Root
	if f.At != "" {
		m.Mountpoint, err = ExistingDir(e, f.At)
		if err != nil {
			return m, err
		}
	}
	if err := refuseWhole(e, m.Root, f.Exact); err != nil {
		return m, err
	}
	if f.At != "" && !m.InPlace() {
		if err := checkElsewhere(m.Root, m.Mountpoint); err != nil {
			return m, err
		}
	}
	if done, err := checkMounts(e, &m); done || err != nil {
		return m, err
	}
	if err := RefuseSource(m.Root); err != nil {
		return m, err
	}
	if err := CheckFuse(e, f.Private); err != nil {
		return m, err
	}
	if f.At != "" && !m.InPlace() {
		if err := checkEmpty(m.Mountpoint); err != nil {
			return m, err
		}
	}
	if err := checkSpace(e, m.Root); err != nil {
		return m, err
	}
	if m.InPlace() && !f.Beside {
		if err := refuseDatabases(m.Root); err != nil {
			return m, err
		}
	}
	if err := identify(e, &m); err != nil {
		return m, err
	}
	if m.InPlace() && m.Hidden() != "" {
		return m, cli.Hintf("export CACHEBRO_DIR=/a/directory/outside", "the state directory %s lies inside the project, where the mount would cover it", cli.Quote(m.State))
	}
	m.Exe, err = e.SelfOutside(m.Mountpoint, m.State)
	if err != nil {
		return m, fmt.Errorf("copy this binary out of the project: %w", err)
	}
	m.Version = cli.Version
	m.Env, m.Paths = serverEnv(e), e.Paths()
	m.ReadOnly = f.readOnly
	m.Notes = append(m.Notes, mountedInside(m.Root)...)
	if note := descriptorNote(); note != "" {
		m.Notes = append(m.Notes, note)
	}
	if note := pnpmNote(e, m.Root); note != "" {
		m.Notes = append(m.Notes, note)
	}
	if !f.Private {
		m.AllowOther, err = allowOther(f, &m)
	}
	return m, err
}

// refuseDatabases checks databaseLooks times, with pauses of databasePause, so that a short-lived
// command such as git does not prevent the mount.
const (
	databaseLooks = 5
	databasePause = 100 * time.Millisecond
)

// systemDirs lists directories that contain the system or its users' homes, but no project.
var systemDirs = []string{"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var",
	"/Applications", "/Library", "/System", "/Users", "/private"}

// refuseWhole refuses home and system directories, because the history would record everything that
// any program writes there. A command run in a project inside such a directory would also take the
// whole directory for its project. If exact is true, only the root directory is refused.
func refuseWhole(e *cli.Env, root string, exact bool) error {
	const hint = "cd ~/src/app, or wherever the project is, and try again"
	if root == "/" {
		return cli.Hintf(hint, "the root directory cannot be a project")
	}
	if exact {
		return nil
	}
	what := ""
	if home, err := filepath.EvalSymlinks(e.Getenv("HOME")); err == nil && home == root {
		what = "your home directory"
	} else if slices.Contains(systemDirs, root) {
		what = "a directory of the system"
	}
	if what == "" {
		return nil
	}
	return cli.Hintf(hint+"; cachebro mount --exact "+cli.Arg(root)+" mounts it nevertheless", "%s is %s, and its history would hold what every program writes there", cli.Quote(root), what)
}

// refuseDatabases returns an error if a process uses a file in root as a database. That process
// would continue to bypass the mount, and processes that open the file through the mount would not
// see what it has mapped into memory.
func refuseDatabases(root string) error {
	for look := 1; ; look++ {
		users := mounts.DatabaseUsers(root, mounts.Ours)
		if len(users) == 0 {
			return nil
		}
		if look == databaseLooks {
			return cli.Hintf("end it and start it again on the mount, or mount with --beside: its locks then work on both sides, but its changes are recorded without an author",
				"%s is in use by %s", cli.Quote(root), cli.OneLine(mounts.Describe(users, 8)))
		}
		time.Sleep(databasePause)
	}
}

// mountedInside returns notes about the kernel's own file systems that are mounted inside the
// project. Unlike other file systems, they cannot be entered through the overlay.
func mountedInside(root string) (notes []string) {
	table, err := mounts.Mounts()
	if err != nil {
		return nil
	}
	for _, m := range table {
		switch m.Type {
		case "proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "devpts", "binfmt_misc", "fusectl", "nsfs":
			if m.Point != root && mounts.Within(m.Point, root) {
				notes = append(notes, fmt.Sprintf("%s (%s), which is mounted inside the project, cannot be entered while the project is mounted", cli.Quote(m.Point), m.Type))
			}
		}
	}
	return notes
}

// identify creates the state directory and writes the project's identity there. If the project has
// no history but seems to have one under another path, identify adds a note.
func identify(e *cli.Env, m *PlannedMount) error {
	state, err := e.Paths().State(m.Root)
	if err != nil {
		return err
	}
	m.First = !cli.IsDir(state)
	m.State, err = e.Paths().MakeState(m.Root)
	if err != nil {
		return err
	}
	id, err := mounts.Identify(m.Root, mounts.ReadIdentity(m.State))
	if err != nil {
		return err
	}
	if base, err := e.Paths().StateBase(); err == nil && m.First {
		if old, ok := mounts.MovedFrom(base, id); ok {
			m.Notes = append(m.Notes, fmt.Sprintf("this looks like the project that was in %s; to join it to its history: cd / && cachebro umount %s && cachebro relocate %s %s",
				cli.Quote(old), cli.Arg(m.Mountpoint), cli.Arg(old), cli.Arg(m.Root)))
		}
	}
	return id.Write(m.State)
}

// ExistingDir resolves the symlinks of a directory argument. It returns an error with a hint if the
// argument is not a directory.
func ExistingDir(e *cli.Env, dir string) (string, error) {
	abs, err := e.Abs(dir)
	if err != nil {
		return "", err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return "", err
	}
	if err := e.Stopped(overlays, abs); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return abs, nil // a dead mount, which checkMounts removes
	case errors.Is(err, fs.ErrNotExist):
		return "", cli.Hintf("mkdir -p "+cli.Arg(abs), "%s does not exist", cli.Quote(abs))
	case errors.Is(err, syscall.ELOOP):
		return "", cli.Hintf("ls -l "+cli.Arg(abs), "%s is a symlink that leads to itself", cli.Quote(abs))
	case errors.Is(err, fs.ErrPermission):
		return "", cli.Hintf("ls -ld "+cli.Arg(abs), "%s cannot be entered: permission denied", cli.Quote(abs))
	case err != nil:
		return "", err
	}
	fi, err := os.Stat(real)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return real, nil
	case err != nil:
		return "", err
	case !fi.IsDir():
		return "", cli.Hintf("cachebro mount "+cli.Arg(filepath.Dir(real)), "%s is not a directory", cli.Quote(abs))
	}
	return real, nil
}

// checkElsewhere refuses a mountpoint that contains its source or is inside it.
func checkElsewhere(root, point string) error {
	if mounts.Within(point, root) {
		return cli.Hintf("choose a mountpoint outside, or mount in place: cachebro mount "+cli.Arg(root), "the mountpoint %s is inside the project %s", cli.Quote(point), cli.Quote(root))
	}
	if mounts.Within(root, point) {
		return cli.Hintf("choose another mountpoint, or mount in place: cachebro mount "+cli.Arg(root), "the mountpoint %s contains the project %s", cli.Quote(point), cli.Quote(root))
	}
	return nil
}

func checkEmpty(point string) error {
	d, err := os.Open(point)
	if err != nil {
		return fmt.Errorf("look into the mountpoint: %w", err)
	}
	defer d.Close()
	if names, _ := d.Readdirnames(1); len(names) > 0 {
		return cli.Hintf("mkdir a directory of its own for the mount", "the mountpoint %s is not empty (it contains %s)", cli.Quote(point), cli.Quote(names[0]))
	}
	return nil
}

// checkMounts finds cachebro mounts on, around and inside the project, and removes a dead one. done
// reports whether the project is already mounted on its mountpoint.
func checkMounts(e *cli.Env, m *PlannedMount) (done bool, err error) {
	for range 4 { // dead mounts may be stacked
		overlays, err := mounts.Overlays()
		if err != nil {
			return false, err
		}
		on, ok := mounts.At(overlays, m.Mountpoint)
		if !ok {
			return false, checkNesting(overlays, m)
		}
		switch err := mounts.Answers(on.Point, 3*time.Second); {
		case errors.Is(err, mounts.ErrDead):
			if err := clearDead(on); err != nil {
				return false, err
			}
			m.Notes = append(m.Notes, "removed a dead mount on "+cli.Quote(on.Point))
			continue
		case errors.Is(err, mounts.ErrHung):
			return false, cli.Hintf("cachebro umount --lazy "+cli.Arg(on.Point), "%s is mounted, but its mount does not answer", cli.Quote(on.Point))
		}
		if on.Source != m.Root {
			return false, cli.Hintf("cachebro umount "+cli.Arg(on.Point), "%s is already the mountpoint of %s", cli.Quote(on.Point), cli.Quote(on.Source))
		}
		m.Already = true
		m.Elsewhere = e.SecondHistory(on)
		m.State, err = e.Paths().State(m.Root)
		if err == nil {
			if r, ok := supervisor.ReadRecord(m.State); ok && r.Mountpoint == on.Point {
				m.Mountd = r.PID
			}
		}
		if m.Mountd == 0 {
			m.Mountd = mounts.FindMountd(on.Point)
		}
		return true, nil
	}
	return false, cli.Hintf("umount "+cli.Arg(m.Mountpoint), "dead mounts on %s cannot be removed", cli.Quote(m.Mountpoint))
}

// checkNesting refuses a mount that contains another mount of cachebro, is inside one, or has the
// same source.
func checkNesting(overlays []mounts.Mount, m *PlannedMount) error {
	for _, other := range overlays {
		if other.Source == m.Root {
			return cli.Hintf("cachebro umount "+cli.Arg(other.Point), "%s is mounted already, at %s", cli.Quote(m.Root), cli.Quote(other.Point))
		}
	}
	if above, ok := mounts.Above(overlays, m.Root); ok && above.Point != m.Mountpoint {
		return cli.Hintf("it is watched already: cachebro status --dir "+cli.Arg(above.Point), "%s is inside the mount on %s", cli.Quote(m.Root), cli.Quote(above.Point))
	}
	if above, ok := mounts.Above(overlays, m.Mountpoint); ok {
		return cli.Hintf("choose another mountpoint", "%s is inside the mount on %s", cli.Quote(m.Mountpoint), cli.Quote(above.Point))
	}
	if below, ok := mounts.Below(overlays, m.Root); ok {
		return cli.Hintf("cachebro umount "+cli.Arg(below.Point), "another mount lies inside %s: %s", cli.Quote(m.Root), cli.Quote(below.Point))
	}
	return nil
}

// NoFuse reports that FUSE is missing, or that this user may not use it.
type NoFuse struct{ error }

func (n *NoFuse) Unwrap() error { return n.error }

// Unmounted describes what can or cannot be undone without a mount.
func Unmounted() string {
	if outside.Possible() {
		return "only changes by commands that cachebro run starts can be undone"
	}
	return "shell changes cannot be undone"
}

// CheckFuse returns a *NoFuse error if FUSE is missing or this user may not use it.
func CheckFuse(e *cli.Env, private bool) error {
	helper := private || HasHelper()
	// Check the device first, because fusermount3 needs it too.
	if why, fix := FuseProblem(); why != "" {
		if !helper {
			fix += "; then, as fusermount3 is missing too: " + HelperFix()
		}
		return &NoFuse{cli.Hintf(fix, "%s, so nothing can be mounted: %s; repeated reads still save tokens (cachebro serve, hooks)", why, Unmounted())}
	}
	if !helper {
		return &NoFuse{cli.Hintf(HelperFix()+WithoutHelper, "fusermount3 is missing; without it only root can mount")}
	}
	return nil
}

// allowOther decides whether other users may use the mount. Without allow_other the kernel does not
// even let root in, which surprises users of backups, sudo and docker -v.
func allowOther(f MountFlags, m *PlannedMount) (bool, error) {
	if f.noAllowOther {
		return false, nil
	}
	if os.Getuid() == 0 || UserAllowOther() {
		return true, nil
	}
	if runtime.GOOS == "darwin" { // macFUSE lets only administrators use allow_other, so it needs a flag
		return f.allowOther, nil
	}
	if f.allowOther {
		return false, cli.Hintf("echo user_allow_other | sudo tee -a /etc/fuse.conf", "--allow-other needs user_allow_other in /etc/fuse.conf")
	}
	m.Notes = append(m.Notes, "only you can enter the mount: sudo, root's backups and docker -v cannot (user_allow_other in /etc/fuse.conf would let them)")
	return false, nil
}

// UserAllowOther reports whether /etc/fuse.conf lets ordinary users use allow_other.
func UserAllowOther() bool {
	b, _ := os.ReadFile("/etc/fuse.conf") // without the file, no user may
	return slices.ContainsFunc(strings.Split(string(b), "\n"), func(l string) bool { return strings.TrimSpace(l) == "user_allow_other" })
}

// serverEnv returns the environment for the processes that serve the mount. It omits PWD and
// OLDPWD, because a library that uses them would access the mount.
func serverEnv(e *cli.Env) []string {
	vars := make([]string, 0, len(e.Vars))
	for _, kv := range e.Vars {
		if !strings.HasPrefix(kv, "PWD=") && !strings.HasPrefix(kv, "OLDPWD=") {
			vars = append(vars, kv)
		}
	}
	return vars
}

// minSpace is the free space that a store needs to be opened.
const minSpace = 32 << 20

// checkSpace checks the free space for the state directory, before anything is created there.
func checkSpace(e *cli.Env, root string) error {
	state, err := e.Paths().State(root)
	if err != nil {
		return err
	}
	dir := state
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			dir = filepath.Dir(dir)
			continue
		}
		if free := int64(st.Bavail) * int64(st.Bsize); err == nil && free < minSpace {
			return cli.Hintf("free some space, or export CACHEBRO_DIR=/a/larger/disk", "no space for the history: %s has %s free, and at least %s are needed", cli.Quote(dir), text.Bytes(free), text.Bytes(minSpace))
		}
		return nil
	}
}

// fewDescriptors is a limit on open files below which builds and language servers may fail.
const fewDescriptors = 16384

// descriptorNote returns a warning if the limit on descriptors is low. mountd inherits the limit,
// and needs a descriptor for each file that is open on the mount.
func descriptorNote() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max >= fewDescriptors {
		return ""
	}
	return fmt.Sprintf("all programs together can have fewer than %s open on the mount, because the limit on descriptors is low (ulimit -Hn; as root: ulimit -Hn %d)", text.Count(limit.Max, "file"), 1<<19)
}
