// Package contained runs commands where nothing can be mounted: in a new mount namespace whose /dev
// has no fuse node, as in a container. It needs root. Nothing outside the namespace is changed.
package contained

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// User is the ordinary user that As switches to.
const User = 65534

// WithoutFuse returns a command line that runs argv as root in such a namespace. The new namespace
// gets a copy of every mount. The copies of cachebro's mounts are unmounted there, because they
// would keep the original mounts in use.
func WithoutFuse(argv ...string) []string {
	const script = `sed -n "s/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.cachebro .*/\1/p" /proc/self/mountinfo | while read -r point; do umount -l -- "$(printf %b "$point")" || true; done
mount -t tmpfs -o mode=755 tmpfs /dev
for d in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do mknod -m 666 "/dev/${d% *}" c 1 "${d#* }"; done
ln -s /proc/self/fd /dev/fd; mkdir -m 1777 /dev/shm; mkdir /dev/pts
mknod -m 666 /dev/tty c 5 0
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts; ln -s pts/ptmx /dev/ptmx
exec "$@"`
	return append([]string{"unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh"}, argv...)
}

// As returns a command line that runs argv in such a namespace as an ordinary user who has no
// capabilities and cannot gain any. Each bind consists of a path and the path at which it is
// bind-mounted, which must exist.
func As(binds [][2]string, argv ...string) []string {
	const script = `while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"`
	words := []string{"sh", "-ec", script, "sh"}
	for _, b := range binds {
		words = append(words, b[0], b[1])
	}
	words = append(words, "--", "setpriv", fmt.Sprint("--reuid=", User), fmt.Sprint("--regid=", User), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
	return WithoutFuse(append(words, argv...)...)
}

// State lists everything below the names in a directory with mode, owner, links and content, and
// the names that belong to one file. It omits names that do not exist, and the directories .git and
// .claude.
func State(dir string, names ...string) (string, error) {
	const script = `for d; do [ -e "$d" ] || [ -L "$d" ] || continue
find "$d" \( -name .git -o -name .claude \) -prune -o -printf '%p %m %U %l %y %n\n'; find "$d" \( -name .git -o -name .claude \) -prune -o -type f -print0 | xargs -0 -r md5sum; done | sort
for d; do [ -e "$d" ] || [ -L "$d" ] || continue; find "$d" \( -name .git -o -name .claude \) -prune -o -type f -links +1 -printf '%i %p\n'; done | sort | awk '{n[$1] = n[$1] " = " $2} END {for (i in n) print n[i]}' | sort`
	cmd := exec.Command("sh", append([]string{"-ec", script, "sh"}, names...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return string(out), err
}

// Difference describes the first difference between two states. It returns "" if there is none.
func Difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf(": %d lines, want %d; %q, want %q", len(g), len(w), g[min(i, len(g)-1)], w[i])
		}
	}
	return ""
}

// EndDaemons stops the daemons of all histories in a state directory.
func EndDaemons(state string) {
	locks, _ := filepath.Glob(filepath.Join(state, "cachebro", "*", "lock"))
	for _, name := range locks {
		b, err := os.ReadFile(name)
		pid := 0
		if _, serr := fmt.Sscanf(string(b), "%d", &pid); err == nil && serr == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}
