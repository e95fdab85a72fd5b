package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/outside"
	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

func doctorMachine() []Finding {
	if runtime.GOOS != "linux" {
		return macFindings()
	}
	out := []Finding{fuseFinding(), netFinding(), kernelFinding()}
	if !sys.Points {
		out = append(out, portableFinding())
	}
	if os.Getuid() != 0 {
		out = append(out, fusermountFinding(), otherUsersFinding())
	}
	return out
}

// macFindings returns findings about mounts on macOS, which can do less and were not tested on a
// real Mac.
func macFindings() []Finding {
	found := good("macFUSE", "installed; only a mount shows whether macOS lets it run")
	if why, fix := mounting.FuseProblem(); why != "" {
		found = wrong("macFUSE", fix, "%s: %s; repeated reads still save tokens", why, mounting.Unmounted())
	}
	return []Finding{found, portableFinding(), good("system", "%s/%s: tested through the portable layer, but not yet on a real Mac; "+
		"processes that were in a project before the mount are not detected, so a mount checks the source again each second", runtime.GOOS, runtime.GOARCH)}
}

// portableFinding reports what a mount cannot do without Linux's own file calls.
func portableFinding() Finding {
	return good("file calls", "portable: a mount ends with its process (no take-over), only root and the user who mounted it can create files in it, "+
		"and O_TMPFILE is not supported (doc/macos.md)")
}

func fuseFinding() Finding {
	if why, fix := mounting.FuseProblem(); why != "" {
		return wrong("/dev/fuse", fix, "%s: %s; repeated reads still save tokens", why, mounting.Unmounted())
	}
	return good("/dev/fuse", "can be opened")
}

// netFinding reports whether this machine supports the net of cachebro run, which saves files
// outside of mounts.
func netFinding() Finding {
	if !outside.Possible() {
		return wrong("net", "a kernel with SECCOMP_RET_USER_NOTIF (5.0), on amd64 or arm64", "cachebro run cannot save files outside of mounts")
	}
	return good("net", "cachebro run also saves files outside of mounts before its command changes them (limits: cachebro help run)")
}

// kernel lists the FUSE features that the running kernel has and lacks. Only openat2 is required.
type kernel struct {
	Release string   `json:"release"`
	Has     []string `json:"has,omitempty"`
	Lacks   []string `json:"lacks,omitempty"`
}

// TheKernel determines the features of the running kernel from its release. If the release cannot
// be parsed, Has and Lacks are empty.
func TheKernel() (k kernel, err error) {
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

func kernelFinding() Finding {
	k, err := TheKernel()
	switch {
	case err != nil:
		return wrong("kernel", "", "the kernel version cannot be read: %v", err)
	case len(k.Has)+len(k.Lacks) == 0:
		return good("kernel", "%s, whose features are unknown", k.Release)
	case slices.Contains(k.Lacks, openat2Feature):
		return wrong("kernel", "use a kernel of 5.6 or later", "%s lacks %s", k.Release, strings.Join(k.Lacks, ", "))
	}
	text := k.Release + ": " + strings.Join(k.Has, ", ")
	if len(k.Lacks) > 0 {
		text += "; without " + strings.Join(k.Lacks, ", ")
	}
	return good("kernel", "%s", text)
}

func fusermountFinding() Finding {
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return wrong("fusermount3", mounting.HelperFix()+mounting.WithoutHelper, "missing; without it only root can mount for all processes")
	}
	fi, err := os.Stat(path)
	if err == nil && fi.Mode()&os.ModeSetuid == 0 {
		return wrong("fusermount3", "sudo chmod u+s "+cli.Arg(path), "%s is not setuid, so it cannot mount", cli.Quote(path))
	}
	return good("fusermount3", "%s", path)
}

// otherUsersFinding reports whether other users can enter the mount. If they cannot, that is not a
// problem, but it surprises people who run sudo inside.
func otherUsersFinding() Finding {
	if mounting.UserAllowOther() {
		return good("other users", "can enter the mount (user_allow_other)")
	}
	f := good("other users", "cannot enter the mount: sudo, root's backups and docker -v do not work inside")
	f.Fix = "echo user_allow_other | sudo tee -a /etc/fuse.conf"
	return f
}
