package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
)

// plannedMount is a mount that passed all checks.
type plannedMount struct {
	supervisor.Config
	notes   []string
	already bool // ours, and it answers
	mountd  int
}

// planMount decides what is to be mounted where and refuses what cannot work,
// each with its own message, before anything is made.
func (e *env) planMount(dir string, f mountFlags) (m plannedMount, err error) {
	asked, err := e.existingDir(dir)
	if err != nil {
		return m, err
	}
	m.Root = asked
	if top, ok := mounts.Top(asked); ok && top != asked && !f.exact {
		m.Root = top
		m.notes = append(m.notes, fmt.Sprintf("mounting %s, the top level of this git work tree (--exact insists on %s)", quote(top), quote(asked)))
	}
	m.Mountpoint = m.Root
	if f.at != "" {
		if m.Mountpoint, err = e.existingDir(f.at); err != nil {
			return m, err
		}
	} else if runtime.GOOS != "linux" {
		return m, hintf("mkdir ~/watched && cachebro mount "+arg(dir)+" --at ~/watched", "a mount in place needs Linux")
	}
	if m.Root == "/" {
		return m, hintf("cd ~/src/app, or wherever the project is, and once more", "the root directory cannot be a project")
	}
	if f.at != "" && !m.InPlace() {
		if err := checkElsewhere(m.Root, m.Mountpoint); err != nil {
			return m, err
		}
	}
	if done, err := e.checkMounts(&m); done || err != nil {
		return m, err
	}
	if err := refuseSource(m.Root); err != nil {
		return m, err
	}
	if err := e.checkFuse(f.private); err != nil {
		return m, err
	}
	if f.at != "" && !m.InPlace() {
		if err := checkEmpty(m.Mountpoint); err != nil {
			return m, err
		}
	}
	if err := e.checkSpace(m.Root); err != nil {
		return m, err
	}
	if err := e.identify(&m); err != nil {
		return m, err
	}
	if m.InPlace() && m.Hidden() != "" {
		return m, hintf("export CACHEBRO_DIR=/a/directory/outside", "the state directory %s lies inside the project, where the mount would cover it", quote(m.State))
	}
	m.Exe, m.Version, m.Env, m.Paths = e.exe, version, e.standingNowhere(), e.paths()
	m.ReadOnly = f.readOnly
	m.notes = append(m.notes, mountedInside(m.Root)...)
	if note := e.pnpmNote(m.Root); note != "" {
		m.notes = append(m.notes, note)
	}
	if !f.private {
		m.AllowOther, err = e.allowOther(f, &m)
	}
	return m, err
}

// mountedInside names what of the kernel's own is mounted inside the project:
// the overlay does not open it for anybody. Other file systems are passed through.
func mountedInside(root string) (notes []string) {
	table, err := mounts.Mounts()
	if err != nil {
		return nil
	}
	for _, m := range table {
		switch m.Type {
		case "proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "devpts", "binfmt_misc", "fusectl", "nsfs":
			if m.Point != root && mounts.Within(m.Point, root) {
				notes = append(notes, fmt.Sprintf("%s (%s), which is mounted inside the project, cannot be entered while cachebro is", quote(m.Point), m.Type))
			}
		}
	}
	return notes
}

// identify makes the state directory and notes in it who the project is. Of one
// that has no history yet but had one elsewhere, it says so.
func (e *env) identify(m *plannedMount) error {
	state, err := e.paths().State(m.Root)
	if err != nil {
		return err
	}
	known := isDir(state)
	if m.State, err = e.paths().MakeState(m.Root); err != nil {
		return err
	}
	id, err := mounts.Identify(m.Root, mounts.ReadIdentity(m.State))
	if err != nil {
		return err
	}
	if base, err := e.paths().StateBase(); err == nil && !known {
		if old, ok := mounts.MovedFrom(base, id); ok {
			m.notes = append(m.notes, fmt.Sprintf("this looks like the project that was in %s; to join it to its history: cd / && cachebro umount %s && cachebro relocate %s %s",
				quote(old), arg(m.Mountpoint), arg(old), arg(m.Root)))
		}
	}
	return id.Write(m.State)
}

// existingDir resolves a directory argument and says what is wrong with it.
func (e *env) existingDir(dir string) (string, error) {
	abs, err := e.abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return abs, nil // a dead mount: checkMounts clears it away
	case errors.Is(err, fs.ErrNotExist):
		return "", hintf("mkdir -p "+arg(abs), "%s does not exist", quote(abs))
	case errors.Is(err, syscall.ELOOP):
		return "", hintf("ls -l "+arg(abs), "%s is a symlink that leads to itself", quote(abs))
	case errors.Is(err, fs.ErrPermission):
		return "", hintf("ls -ld "+arg(abs), "%s cannot be entered: permission denied", quote(abs))
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
		return "", hintf("cachebro mount "+arg(filepath.Dir(real)), "%s is not a directory", quote(abs))
	}
	return real, nil
}

// checkElsewhere refuses a mountpoint that would contain its source, or lie in it.
func checkElsewhere(root, point string) error {
	if mounts.Within(point, root) {
		return hintf("choose a mountpoint outside, or mount in place: cachebro mount "+arg(root), "the mountpoint %s is inside the project %s", quote(point), quote(root))
	}
	if mounts.Within(root, point) {
		return hintf("choose another mountpoint, or mount in place: cachebro mount "+arg(root), "the mountpoint %s contains the project %s", quote(point), quote(root))
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
		return hintf("mkdir a directory of its own for the mount", "the mountpoint %s is not empty (it holds %s)", quote(point), quote(names[0]))
	}
	return nil
}

// checkMounts looks for mounts of ours on, around and inside. done: the project
// is mounted where it should be already. A dead mount of ours is cleared away.
func (e *env) checkMounts(m *plannedMount) (done bool, err error) {
	for range 4 { // dead mounts may lie on top of each other
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
			m.notes = append(m.notes, "cleared away a dead mount on "+quote(on.Point))
			continue
		case errors.Is(err, mounts.ErrHung):
			return false, hintf("cachebro umount --lazy "+arg(on.Point), "%s is mounted, but its mount does not answer", quote(on.Point))
		}
		if on.Source != m.Root {
			return false, hintf("cachebro umount "+arg(on.Point), "%s is already the mountpoint of %s", quote(on.Point), quote(on.Source))
		}
		m.already = true
		if m.State, err = e.paths().State(m.Root); err == nil {
			if r, ok := supervisor.ReadRecord(m.State); ok && r.Mountpoint == on.Point {
				m.mountd = r.PID
			}
		}
		if m.mountd == 0 {
			m.mountd = mounts.FindMountd(on.Point)
		}
		return true, nil
	}
	return false, hintf("umount "+arg(m.Mountpoint), "dead mounts on %s do not go away", quote(m.Mountpoint))
}

// checkNesting refuses a mount around, inside or beside another one of ours.
func checkNesting(overlays []mounts.Mount, m *plannedMount) error {
	for _, other := range overlays {
		if other.Source == m.Root {
			return hintf("cachebro umount "+arg(other.Point), "%s is mounted already, at %s", quote(m.Root), quote(other.Point))
		}
	}
	if above, ok := mounts.Above(overlays, m.Root); ok && above.Point != m.Mountpoint {
		return hintf("it is watched already: cachebro status "+arg(above.Point), "%s lies inside the mount on %s", quote(m.Root), quote(above.Point))
	}
	if above, ok := mounts.Above(overlays, m.Mountpoint); ok {
		return hintf("choose another mountpoint", "%s lies inside the mount on %s", quote(m.Mountpoint), quote(above.Point))
	}
	if below, ok := mounts.Below(overlays, m.Root); ok {
		return hintf("cachebro umount "+arg(below.Point), "another mount lies inside %s: %s", quote(m.Root), quote(below.Point))
	}
	return nil
}

// noFuse: the machine or its user lacks what a mount needs.
type noFuse struct{ hinted }

// checkFuse: is there FUSE, and may we use it?
func (e *env) checkFuse(private bool) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	helper := true
	if os.Getuid() != 0 && !private {
		_, err := exec.LookPath("fusermount3")
		helper = err == nil
	}
	// The device first: without it fusermount3 mounts nothing either.
	if why, fix := fuseProblem(); why != "" {
		if !helper {
			fix += "; then, as fusermount3 is missing too: " + helperFix
		}
		return &noFuse{hinted{fmt.Errorf("%s, so nothing can be mounted: shell changes cannot be undone; reads still save (cachebro serve, hooks)", why), fix}}
	}
	if !helper {
		return &noFuse{hinted{errors.New("fusermount3 is missing, without which only root can mount"), helperFix + withoutHelper}}
	}
	return nil
}

// allowOther decides who may enter. Without allow_other not even root may: that
// is the kernel's rule, and it surprises backups, sudo and docker -v.
func (e *env) allowOther(f mountFlags, m *plannedMount) (bool, error) {
	if f.noAllowOther {
		return false, nil
	}
	if os.Getuid() == 0 || userAllowOther() {
		return true, nil
	}
	if f.allowOther {
		return false, hintf("echo user_allow_other | sudo tee -a /etc/fuse.conf", "--allow-other needs user_allow_other in /etc/fuse.conf")
	}
	m.notes = append(m.notes, "only you can enter the mount: sudo, root's backups and docker -v cannot (user_allow_other in /etc/fuse.conf would let them)")
	return false, nil
}

func userAllowOther() bool {
	f, err := os.Open("/etc/fuse.conf")
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.TrimSpace(s.Text()) == "user_allow_other" {
			return true
		}
	}
	return false
}

// standingNowhere is the environment for the mount's processes: without a
// working directory, at which a library might look through the mount.
func (e *env) standingNowhere() []string {
	vars := make([]string, 0, len(e.vars))
	for _, kv := range e.vars {
		if !strings.HasPrefix(kv, "PWD=") && !strings.HasPrefix(kv, "OLDPWD=") {
			vars = append(vars, kv)
		}
	}
	return vars
}

// minSpace is what a store needs to be opened at all.
const minSpace = 32 << 20

// checkSpace looks at the file system that the state is on, before anything is
// made there.
func (e *env) checkSpace(root string) error {
	state, err := e.paths().State(root)
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
			return hintf("free some space, or export CACHEBRO_DIR=/a/larger/disk", "no space for the history: %s has %s free, and at least %s are needed", quote(dir), bytesText(free), bytesText(minSpace))
		}
		return nil
	}
}
