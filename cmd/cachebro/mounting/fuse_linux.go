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

// containerFix is for whoever starts the container: from inside nothing helps.
const containerFix = `start the container with --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined (in devcontainer.json: "runArgs")`

// FuseProblem says why /dev/fuse cannot be used here, and how to fix that. Both are "" if
// it can be opened.
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

// inContainer looks for the marks of Docker, Podman, systemd-nspawn and Kubernetes.
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

// HasHelper reports whether we can mount: as root, or through fusermount3.
func HasHelper() bool {
	_, err := exec.LookPath("fusermount3")
	return err == nil || os.Getuid() == 0
}
