package mounting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// containerFix is a hint for the person who starts the container. The problem cannot be fixed from
// inside.
const containerFix = `start the container with --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined (in devcontainer.json: "runArgs")`

// FuseProblem returns why /dev/fuse cannot be used, and a fix. Both are "" if it can be opened.
func FuseProblem() (why, fix string) {
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
		// The mode of the device is wrong, which can happen in a container too.
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

// inContainer reports whether this process runs in a container of Docker, Podman, systemd-nspawn or
// Kubernetes. It looks for files that they create.
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

// HasHelper reports whether this user can mount, because the user is root or fusermount3 is
// installed.
func HasHelper() bool {
	_, err := exec.LookPath("fusermount3")
	return err == nil || os.Getuid() == 0
}
