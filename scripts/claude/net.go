package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// nobody is an ordinary user.
const nobody = 65534

// contained is a command as a container has it: as an ordinary user without capabilities,
// who cannot gain any, and without /dev/fuse. A new namespace copies every mount, and
// would hold those of others.
func (b *bench) contained(argv ...string) []string {
	script := `sed -n "s/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.cachebro .*/\1/p" /proc/self/mountinfo | while read -r point; do umount -l -- "$(printf %b "$point")" || true; done
mount --bind "$1" "$2"
mount -t tmpfs tmpfs /dev
for d in "null 3" "zero 5" "random 8" "urandom 9"; do mknod -m 666 /dev/${d% *} c 1 ${d#* }; done
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`
	return append([]string{"unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh", b.claude, b.containedClaude()}, argv...)
}

func (b *bench) containedClaude() string { return filepath.Join(b.dir, "bin", "claude") }

// containedTool runs cachebro there.
func (b *bench) containedTool(args ...string) (string, error) {
	argv := b.contained(append([]string{filepath.Join(b.dir, "bin", "cachebro")}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.project, b.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const netHome = `umask 022; mkdir -p other-project/a other-project/b conf d1 d2/sub empty tree/x/y
for d in a b; do i=0; while [ $i -lt 5000 ]; do echo $d $i >other-project/$d/f$i; i=$((i+1)); done; done
ln other-project/a/f1 other-project/a/hard; ln -s f2 other-project/b/soft; chmod 750 other-project/b/f3
echo 'export A=1' >.bashrc; chmod 640 .bashrc; printf 'mode = on\nport = 80\n' >conf/app.ini
echo 1 >d1/x; echo 2 >d2/x; echo s >d2/sub/s; echo 3 >tree/x/y/z; chmod 750 tree/x; head -c 300000 /dev/urandom >data.db; chmod 600 data.db
echo 4 >later; ln -s conf/app.ini app.ini`

const netState = `for d in other-project conf d1 d2 empty tree data.db later app.ini .bashrc ../project; do
[ -e $d ] || [ -L $d ] || continue
find $d \( -name .git -o -name .claude \) -prune -o -printf '%p %m %U %l %y %n\n'; find $d \( -name .git -o -name .claude \) -prune -o -type f -print0 | xargs -0 -r md5sum; done | sort`

// destroy is what a static program does; see main.
func destroy(home string) error {
	if err := os.RemoveAll(filepath.Join(home, "other-project/b")); err != nil {
		return err
	}
	return errors.Join(os.Truncate(filepath.Join(home, "data.db"), 100), os.Rename(filepath.Join(home, "d2"), filepath.Join(home, "empty")), os.Chmod(filepath.Join(home, "later"), 0o400))
}

// netted: the client works where nothing can be mounted, and destroys what is not its own.
func netted(b *bench, c *checks) {
	home := filepath.Join(b.dir, "home")
	self, err := os.Executable()
	sh := func(script string) string {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = home
		out, err := cmd.CombinedOutput()
		c.that(err == nil, "%.40s…: %v %s", script, err, head(string(out)))
		return string(out)
	}
	c.that(err == nil, "this program: %v", err)
	sh(netHome)
	sh(fmt.Sprintf("chmod 755 ..; mkdir -p ../bin; : >../bin/claude; cp %s ../bin/cachebro; cp %s ../bin/static; chmod -R a+rX ../bin; chown -R %d:%d . ../project ../state ../run", b.cachebro, self, nobody, nobody))
	defer sh(fmt.Sprintf("chown -R 0:0 . ../project ../state ../run; chmod -R u+w .; rm -rf %s", "other-project conf d1 d2 empty tree data.db later app.ini .bashrc ../bin"))
	defer b.endContained()

	m := b.conv("disaster")
	m.do(shell("rm -rf ~/other-project/a"))
	m.do(shell(filepath.Join(b.dir, "bin", "static") + " destroy ~"))
	m.do(shell("echo gone >~/.bashrc"))
	m.do(shell("sed -i 's/on/off/' ~/conf/app.ini; rm -r ~/d1; mv ~/empty ~/d1"))
	m.do(shell("chmod -R go-rwx,u-w ~/tree"))
	m.do(b.read("src/mid.go"))
	m.do(b.edit("src/mid.go", "line 7 of this", "line seven"))
	m.do(shell("rm src/huge.go; echo new >new.txt"))
	m.say("finished")
	before := sh(netState)
	r := b.start(b.contained(append([]string{filepath.Join(b.dir, "bin", "cachebro"), "run", "--", b.containedClaude()}, claudeArgs(m.ready(), nil)...)...))
	ended(c, r, "the client in the net")
	c.that(strings.Contains(r.stderr, "the net keeps what this command"), "run says which way is at work: %s", r.stderr)
	after := sh(netState)
	c.that(strings.Count(before, "\n") > 20_000 && strings.Count(after, "\n") < 1000, "the files are gone: %d lines, were %d", strings.Count(after, "\n"), strings.Count(before, "\n"))

	text, err := b.containedTool("undo", "--prompt", "last", "--yes")
	c.that(err == nil, "undo --prompt last: %v: %s", err, tail(text))
	c.that(sh(netState) == before, "everything is as before, with modes and links%s", firstDifference(before, sh(netState)))
	text, err = b.containedTool("redo", "--yes")
	c.that(err == nil, "redo: %v: %s", err, tail(text))
	c.that(sh(netState) == after, "everything is as the client left it%s", firstDifference(after, sh(netState)))

	sh("echo mine >>.bashrc")
	text, err = b.containedTool("undo", "--prompt", "last", "--yes")
	var exit *exec.ExitError
	c.that(errors.As(err, &exit) && exit.ExitCode() == 1, "undo after a person's edit has status 1: %v", err)
	c.that(strings.Contains(text, "conflict "+filepath.Join(home, ".bashrc")+": changed since"), "and names what it leaves: %s", tail(text))
	without := func(state string) string {
		var kept []string
		for _, line := range strings.Split(state, "\n") {
			if !strings.Contains(line, ".bashrc") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n")
	}
	now := sh(netState)
	c.that(without(now) == without(before), "all else is as before%s", firstDifference(without(before), without(now)))
	c.that(sh("cat .bashrc") == "gone\nmine\n", "the person's edit is left")
}

// endContained ends the daemons of the container.
func (b *bench) endContained() {
	for _, dir := range []string{b.project, "/"} {
		out, err := b.containedTool("status", "--json", "--dir", dir)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(strings.ReplaceAll(out, " ", ""), `"daemon_pid":`)
		pid, err := strconv.Atoi(rest[:max(0, strings.IndexAny(rest, ",}\n"))])
		if err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf(": %d lines, want %d; %q, want %q", len(g), len(w), g[min(i, len(g)-1)], w[i])
		}
	}
	return ""
}

// tail is the end of a long text.
func tail(s string) string { return s[max(0, len(s)-600):] }
