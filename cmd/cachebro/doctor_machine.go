package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// doctorMachine looks at what a mount needs of the machine.
func (e *env) doctorMachine() []finding {
	if runtime.GOOS != "linux" {
		return []finding{good("system", "%s/%s: mounts with --at only, through macFUSE", runtime.GOOS, runtime.GOARCH)}
	}
	out := []finding{fuseFinding(), kernelFinding()}
	if os.Getuid() != 0 {
		out = append(out, fusermountFinding(), otherUsersFinding())
	}
	return out
}

// containerFix is for whoever starts the container: from inside nothing helps.
const containerFix = `start the container with --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined (in devcontainer.json: "runArgs")`

// fuseProblem says why /dev/fuse is of no use here, and what mends it; "" when
// it can be opened.
func fuseProblem() (why, fix string) {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return "", ""
	}
	sudo := "sudo "
	if os.Getuid() == 0 {
		sudo = ""
	}
	switch {
	case errors.Is(err, syscall.EACCES) && sudo != "":
		// Its mode is at fault, in a container too.
		return "/dev/fuse cannot be opened (permission denied)", "sudo chmod 666 /dev/fuse"
	case errors.Is(err, fs.ErrNotExist):
		why, fix = "there is no /dev/fuse on this machine", sudo+"modprobe fuse"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		why, fix = "/dev/fuse is there, but the kernel has no FUSE", sudo+"modprobe fuse"
	default:
		why = fmt.Sprintf("/dev/fuse cannot be opened (%v)", errors.Unwrap(err))
	}
	if inContainer() || fix == "" {
		fix = containerFix
	}
	return why, fix
}

func fuseFinding() finding {
	if why, fix := fuseProblem(); why != "" {
		return wrong("/dev/fuse", fix, "%s: shell changes cannot be undone; reads still save", why)
	}
	return good("/dev/fuse", "can be opened")
}

// inContainer: the marks that Docker, Podman, systemd-nspawn and Kubernetes leave.
func inContainer() bool {
	for _, name := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"} {
		if _, err := os.Lstat(name); err == nil {
			return true
		}
	}
	b, err := os.ReadFile("/proc/1/cgroup")
	text := string(b)
	return err == nil && (strings.Contains(text, "docker") || strings.Contains(text, "kubepods") || strings.Contains(text, "/lxc/"))
}

// isWSL: the Windows Subsystem for Linux names itself in the kernel's release.
func isWSL() bool {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && strings.Contains(strings.ToLower(string(b)), "microsoft")
}

// kernel is what the running kernel's FUSE can do; nothing of it but openat2 is needed.
type kernel struct {
	Release string   `json:"release"`
	Has     []string `json:"has,omitempty"`
	Lacks   []string `json:"lacks,omitempty"`
}

// theKernel asks the running one. One of an unknown kind has and lacks nothing.
func theKernel() (k kernel, err error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return k, err
	}
	k.Release = unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(k.Release, "%d.%d", &major, &minor); err != nil || runtime.GOOS != "linux" {
		return k, nil
	}
	for _, f := range []struct {
		name string
		a, b int
	}{
		{"cached directories (5.1)", 5, 1}, {openat2Feature, 5, 6}, {"killpriv (5.12)", 5, 12}, {"mount survives a restart of mountd (6.9)", 6, 9},
	} {
		if major > f.a || major == f.a && minor >= f.b {
			k.Has = append(k.Has, f.name)
		} else {
			k.Lacks = append(k.Lacks, f.name)
		}
	}
	return k, nil
}

const openat2Feature = "openat2 (5.6)"

func kernelFinding() finding {
	k, err := theKernel()
	switch {
	case err != nil:
		return wrong("kernel", "", "its version cannot be read: %v", err)
	case len(k.Has)+len(k.Lacks) == 0:
		return good("kernel", "%s, of an unknown kind", k.Release)
	case slices.Contains(k.Lacks, openat2Feature):
		return wrong("kernel", "use a kernel of 5.6 or later", "%s lacks %s", k.Release, strings.Join(k.Lacks, ", "))
	}
	text := k.Release + ": " + strings.Join(k.Has, ", ")
	if len(k.Lacks) > 0 {
		text += "; without " + strings.Join(k.Lacks, ", ")
	}
	return good("kernel", "%s", text)
}

// helperFix installs fusermount3, through which ordinary users mount.
const helperFix = "sudo apt-get install fuse3"

// withoutHelper: a private mount needs the device only.
const withoutHelper = "; without it: cachebro run --private -- COMMAND"

func fusermountFinding() finding {
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return wrong("fusermount3", helperFix+withoutHelper, "missing; without it only root can mount in place")
	}
	fi, err := os.Stat(path)
	if err == nil && fi.Mode()&os.ModeSetuid == 0 {
		return wrong("fusermount3", "sudo chmod u+s "+arg(path), "%s is not setuid, so it cannot mount", quote(path))
	}
	return good("fusermount3", "%s", path)
}

// otherUsersFinding is no fault, but a surprise to whoever runs sudo inside.
func otherUsersFinding() finding {
	if userAllowOther() {
		return good("other users", "can enter the mount (user_allow_other)")
	}
	f := good("other users", "cannot enter the mount: sudo, root's backups and docker -v do not work inside")
	f.Fix = "echo user_allow_other | sudo tee -a /etc/fuse.conf"
	return f
}
