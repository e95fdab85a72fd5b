package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"cachebro/scripts/contained"
)

// contained returns the command as it runs in a container.
func (b *bench) contained(argv ...string) []string {
	return contained.As([][2]string{{b.claude, b.containedClaude()}}, argv...)
}

func (b *bench) containedClaude() string { return filepath.Join(b.dir, "bin", "claude") }

// containedTool runs cachebro in the container.
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

// destroy destroys files as a statically linked program; see main.
func destroy(home string) error {
	if err := os.RemoveAll(filepath.Join(home, "other-project/b")); err != nil {
		return err
	}
	return errors.Join(os.Truncate(filepath.Join(home, "data.db"), 100), syscall.Rename(filepath.Join(home, "d2"), filepath.Join(home, "empty")), os.Chmod(filepath.Join(home, "later"), 0o400))
}

// netted lets the client destroy files outside of its project where nothing can be mounted.
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
	state := func() string {
		now, err := contained.State(home, "other-project", "conf", "d1", "d2", "empty", "tree", "data.db", "later", "app.ini", ".bashrc", "../project")
		c.that(err == nil, "how everything is: %v", err)
		return now
	}
	sh(netHome)
	sh(fmt.Sprintf("chmod 755 ..; mkdir -p ../bin; : >../bin/claude; cp %s ../bin/cachebro; cp %s ../bin/static; chmod -R a+rX ../bin; chown -R %d:%d . ../project ../state ../run", b.cachebro, self, contained.User, contained.User))
	defer sh(fmt.Sprintf("chown -R 0:0 . ../project ../state ../run; chmod -R u+w .; rm -rf %s", "other-project conf d1 d2 empty tree data.db later app.ini .bashrc ../bin"))
	defer contained.EndDaemons(filepath.Join(b.dir, "state"))

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
	before := state()
	r := b.start(b.contained(append([]string{filepath.Join(b.dir, "bin", "cachebro"), "run", "--", b.containedClaude()}, claudeArgs(m.ready(), nil)...)...))
	ended(c, r, "the client in the net")
	c.that(strings.Contains(r.stderr, "the net saves files"), "run says which way is at work: %s", r.stderr)
	after := state()
	c.that(strings.Count(before, "\n") > 20_000 && strings.Count(after, "\n") < 1000, "the files are gone: %d lines, were %d", strings.Count(after, "\n"), strings.Count(before, "\n"))

	// os.Rename does not move a directory over another; the system does.
	c.that(strings.Contains(after, "\nd1/sub/s ") && !strings.Contains(after, "\nd2 "), "a directory is where another one was")

	text, err := b.containedTool("undo", "--prompt", "last", "--yes")
	c.that(err == nil, "undo --prompt last: %v: %s", err, tail(text))
	c.that(state() == before, "everything is as before, with modes and links%s", contained.Difference(before, state()))
	text, err = b.containedTool("redo", "--yes")
	c.that(err == nil, "redo: %v: %s", err, tail(text))
	c.that(state() == after, "everything is as the client left it%s", contained.Difference(after, state()))

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
	now := state()
	c.that(without(now) == without(before), "all else is as before%s", contained.Difference(without(before), without(now)))
	c.that(sh("cat .bashrc") == "gone\nmine\n", "the person's edit is left")
}

// tail returns the end of a long text.
func tail(s string) string { return s[max(0, len(s)-600):] }
