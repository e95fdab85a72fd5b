package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/scripts/contained"
)

// netHome is the script that makes the files that a disaster destroys. Its %d stands for the number
// of files in each of the two directories of other-project.
const netHome = `umask 022; mkdir -p other-project/a other-project/b conf d1 d2/sub empty tree/x/y
for d in a b; do i=0; while [ $i -lt %d ]; do echo $d $i >other-project/$d/f$i; i=$((i+1)); done; done
ln other-project/a/f1 other-project/a/hard; ln other-project/a/f2 other-project/b/hard; ln -s f2 other-project/b/soft; chmod 750 other-project/b/f3
echo 'export A=1' >.bashrc; chmod 640 .bashrc; printf 'mode = on\nport = 80\n' >conf/app.ini; ln -s conf/app.ini app.ini
echo 1 >d1/x; echo 2 >d2/x; echo s >d2/sub/s; ln d2/x d2/sub/x; ln -s x d2/soft; echo 3 >tree/x/y/z; chmod 750 tree/x; head -c 300000 /dev/urandom >data.db; chmod 600 data.db`

// netNames are the names of the files that netHome makes, and the project.
var netNames = strings.Fields("other-project conf d1 d2 empty tree data.db app.ini .bashrc ../project")

// netShell are commands that destroy the files as an agent might do it. Each is one tool call.
var netShell = []string{
	"rm -rf ~/other-project",
	"echo gone >~/.bashrc",
	"sed -i 's/on/off/' ~/conf/app.ini",
	"mv -T ~/d2 ~/empty; rm -r ~/d1; mv ~/empty ~/d1",
	"truncate -s 100 ~/data.db",
	"chmod -R go-rwx,u-w ~/tree",
}

// destroy does the same as the commands in netShell, but in a statically linked program; see main.
func destroy(home string) error {
	at := func(name string) string { return filepath.Join(home, name) }
	config, err := os.ReadFile(at("conf/app.ini"))
	return errors.Join(err,
		os.RemoveAll(at("other-project")),
		os.WriteFile(at(".bashrc"), []byte("gone\n"), 0o644),
		os.WriteFile(at("conf/app.new"), []byte(strings.Replace(string(config), "on", "off", 1)), 0o644),
		os.Rename(at("conf/app.new"), at("conf/app.ini")),
		syscall.Rename(at("d2"), at("empty")), // os.Rename refuses to move a directory over another one
		os.RemoveAll(at("d1")),
		os.Rename(at("empty"), at("d1")),
		os.Truncate(at("data.db"), 100),
		filepath.WalkDir(at("tree"), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			if err != nil {
				return err
			}
			return os.Chmod(path, fi.Mode().Perm()&0o577&^0o077)
		}))
}

// container is the home of an ordinary user on a machine where nothing can be mounted. The client
// and cachebro are in it.
type container struct {
	*bench
	*checks
	home, cachebro string
}

func (b *bench) container(c *checks) *container {
	n := &container{b, c, filepath.Join(b.dir, "home"), filepath.Join(b.dir, "bin", "cachebro")}
	self, err := os.Executable()
	c.that(err == nil, "this program: %v", err)
	n.sh(fmt.Sprintf("chmod 755 ..; mkdir -p ../bin; : >../bin/claude; cp %s ../bin/cachebro; cp %s ../bin/static; chmod -R a+rX ../bin; chown -R %d:%d . ../project ../state ../run", b.cachebro, self, contained.User, contained.User))
	return n
}

func (n *container) leave() {
	contained.EndDaemons(filepath.Join(n.dir, "state"))
	n.clear()
	n.sh("chown -R 0:0 . ../project ../state ../run; rm -rf ../bin")
}

// sh runs a script as root in the home.
func (n *container) sh(script string) string {
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = n.home
	out, err := cmd.CombinedOutput()
	n.that(err == nil, "%.40s…: %v %s", script, err, head(string(out)))
	return string(out)
}

func (n *container) clear() {
	n.sh("chmod -R u+w .; rm -rf " + strings.Join(netNames[:len(netNames)-1], " "))
}

// fill makes the files again, and returns their state.
func (n *container) fill(files int) (before string) {
	n.clear()
	n.sh(fmt.Sprintf(netHome, files) + fmt.Sprintf("; chown -hR %d:%d %s", contained.User, contained.User, strings.Join(netNames, " ")))
	return n.state()
}

func (n *container) state() string {
	now, err := contained.State(n.home, netNames...)
	n.that(err == nil, "how everything is: %v", err)
	return now
}

// in returns a command line that runs in the container.
func (n *container) in(argv ...string) []string {
	return contained.As([][2]string{{n.claude, n.client()}}, argv...)
}

func (n *container) client() string { return filepath.Join(n.dir, "bin", "claude") }

// command returns a command that runs cachebro in the container and is killed after the given time.
func (n *container) command(after time.Duration, args ...string) (_ *exec.Cmd, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	argv := n.in(append([]string{n.cachebro}, args...)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = n.project, n.env()
	return cmd, cancel
}

// tool runs cachebro in the container.
func (n *container) tool(args ...string) (string, error) {
	cmd, end := n.command(patience, args...)
	defer end()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// cut runs cachebro in the container and kills it after the given time.
func (n *container) cut(after time.Duration, args ...string) {
	cmd, end := n.command(after, args...)
	defer end()
	_ = cmd.Run()
}

// disaster starts the client under "cachebro run" and lets it run commands and change the project.
func (n *container) disaster(name string, commands []string) run {
	m := n.conv(name)
	for _, command := range commands {
		m.do(shell(command))
	}
	m.do(n.read("src/mid.go"))
	m.do(n.edit("src/mid.go", "line 7 of this", "line seven"))
	m.do(shell("rm src/huge.go; echo new >new.txt"))
	m.say("finished")
	return n.start(n.in(append([]string{n.cachebro, "run", "--", n.client()}, claudeArgs(m.ready(), nil)...)...))
}

// netted lets the client destroy files outside of its project, by commands and by a static program,
// where nothing can be mounted.
func netted(b *bench, c *checks) {
	n := b.container(c)
	defer n.leave()
	for _, d := range []struct {
		name     string
		commands []string
	}{
		{"commands", netShell},
		{"static", []string{filepath.Join(b.dir, "bin", "static") + " destroy ~"}},
	} {
		before := n.fill(5000)
		r := n.disaster("disaster-"+d.name, d.commands)
		ended(c, r, "the client in the net, "+d.name+",")
		c.that(strings.Contains(r.stderr, "the net saves files"), "run says which way is at work: %s", r.stderr)
		after := n.state()
		c.that(strings.Count(before, "\n") > 20_000 && strings.Count(after, "\n") < 1000, "the files are gone: %d lines, were %d", strings.Count(after, "\n"), strings.Count(before, "\n"))
		c.that(strings.Contains(after, "\nd1/sub/s ") && !strings.Contains(after, "\nd2 "), "a directory is where another one was")
		c.that(strings.Contains(after, "\n.bashrc 640 ") && strings.Contains(after, "\ntree/x/y 500 ") && n.sh("cat .bashrc conf/app.ini; wc -c <data.db") == "gone\nmode = off\nport = 80\n100\n", "files are overwritten, edited, truncated, and not to be written to")

		text, err := n.tool("undo", "--prompt", "last", "--yes")
		c.that(err == nil && !strings.Contains(text, "lost"), "undo --prompt last: %v: %s", err, tail(text))
		c.that(n.state() == before, "everything is as before, with modes and links%s", contained.Difference(before, n.state()))
		text, err = n.tool("redo", "--yes")
		c.that(err == nil, "redo: %v: %s", err, tail(text))
		c.that(n.state() == after, "everything is as the client left it%s", contained.Difference(after, n.state()))
		n.conflicts(before)
	}
}

// conflicts lets a person change some of the files that the last prompt changed, and undoes the
// prompt.
func (n *container) conflicts(before string) {
	n.sh(fmt.Sprintf("echo mine >>.bashrc; sed -i s/off/mine/ conf/app.ini; mkdir -p other-project/a; echo mine >other-project/a/f7; chown -R %d:%d other-project conf", contained.User, contained.User))
	mine := []string{".bashrc", "conf/app.ini", "other-project/a/f7"}
	text, err := n.tool("undo", "--prompt", "last", "--yes")
	var exit *exec.ExitError
	n.that(errors.As(err, &exit) && exit.ExitCode() == 1, "undo after a person's edits has status 1: %v", err)
	for _, name := range mine {
		n.that(strings.Contains(text, " "+filepath.Join(n.home, name)+": "), "it names %s, which it leaves: %s", name, tail(text))
	}
	without := func(state string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(state, "\n"), func(line string) bool {
			return slices.ContainsFunc(mine, func(name string) bool { return strings.Contains(line+" ", name+" ") })
		}), "\n")
	}
	now := n.state()
	n.that(without(now) == without(before), "all else is as before%s", contained.Difference(without(before), without(now)))
	n.that(n.sh("cat "+strings.Join(mine, " ")) == "gone\nmine\nmode = mine\nport = 80\nmine\n", "the person's edits are left")
}

// killRounds is the number of rounds of netKilled.
const killRounds = 12

// netKilled kills cachebro's processes at random moments while the client destroys files under
// "cachebro run", and then undoes the prompt.
func netKilled(b *bench, c *checks) {
	n := b.container(c)
	defer n.leave()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	fmt.Printf("seed %d\n", seed)
	n.fill(500)
	r := n.disaster("killed-none", netShell)
	ended(c, r, "the client in the net")
	took, undoTook := r.took, time.Duration(0)
	for round := range killRounds {
		before := n.fill(500)
		deaths, killed, stop := n.deaths(rng, took), map[string]int{}, make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.kill(deaths, killed, stop)
		}()
		began := time.Now()
		r := n.disaster(fmt.Sprintf("killed-%d", round), netShell)
		close(stop)
		<-done
		if killed["run"] > 0 { // if run was killed, the recorder notices the end of the command
			n.awaitEnd("net")
		}
		// If both run and its recorder were killed, or run was killed before the recorder had taken over,
		// no process answers the system calls of the command's processes, and the kernel lets these calls
		// fail. Then the client ends, in the second case before it has changed anything.
		orphaned := killed["run"] > 0 && (killed["net"] > 0 || r.stdout == "" && n.state() == before)
		c.that(r.took < patience, "round %d: the client ended", round)
		c.that(strings.Contains(r.stdout, `"subtype":"success"`) || orphaned, "round %d: killed %v of %v: the client ran to its end in %.1f s %s", round, killed, deaths, r.took.Seconds(), tailOf(r))
		undo := []string{"undo", "--since", began.Format(time.RFC3339Nano), "--yes"}
		if round%2 == 1 { // the next undo finishes the undo that was killed
			deaths = append(deaths, death{"undo", time.Duration(rng.Int64N(int64(undoTook)))})
			n.cut(deaths[len(deaths)-1].at, undo...)
		}
		undoing := time.Now()
		text, err := n.tool(undo...)
		undoTook = time.Since(undoing)
		unnamed := n.unnamed(before, n.state(), text)
		c.that(len(unnamed) == 0, "round %d: what undo does not restore, it names: %v %.1000q: %v: %s", round, len(unnamed), unnamed, err, tail(text))
		c.that(err != nil || n.state() == before, "round %d: its status is 0 only if everything is as before", round)
		fmt.Printf("round %d: killed %v of %v, undo: %v, %d differences that it names\n", round, killed, deaths, err, len(n.differing(before, n.state())))
	}
}

// death says which process is killed, and how long after the start of a command.
type death struct {
	name string // sub-command of the process
	at   time.Duration
}

// deaths returns a few deaths at random moments within took, the time that the client needs.
func (n *container) deaths(rng *rand.Rand, took time.Duration) (all []death) {
	for _, name := range []string{"run", "net", "net", "daemon", "daemon", "hook", "serve"} {
		if name == "run" && rng.IntN(3) == 0 || name != "run" && rng.IntN(2) == 0 {
			all = append(all, death{name, time.Duration(rng.Int64N(int64(took)))})
		}
	}
	slices.SortFunc(all, func(a, b death) int { return int(a.at - b.at) })
	return all
}

// kill kills the processes that the deaths name, at the given moments, and counts them.
func (n *container) kill(deaths []death, killed map[string]int, stop chan struct{}) {
	began := time.Now()
	for _, d := range deaths {
		select {
		case <-stop:
			return
		case <-time.After(time.Until(began.Add(d.at))):
		}
		for _, pid := range n.processes(d.name) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed[d.name]++
			}
		}
	}
}

// processes returns the container's processes that run a sub-command of cachebro.
func (n *container) processes(name string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if exe, err := os.Readlink(d + "/exe"); err != nil || exe != n.cachebro {
			continue
		}
		args, _ := os.ReadFile(d + "/cmdline")
		if f := strings.Split(string(args), "\x00"); len(f) > 1 && f[1] == name {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitEnd waits until no process runs a sub-command.
func (n *container) awaitEnd(name string) {
	for deadline := time.Now().Add(time.Minute); len(n.processes(name)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.that(false, "cachebro %s does not end", name)
			return
		}
	}
}

// differing returns the paths that differ between two states.
func (n *container) differing(before, after string) (paths []string) {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, side := range [][2][]string{{was, is}, {is, was}} {
		has := map[string]bool{}
		for _, line := range side[1] {
			has[line] = true
		}
		for _, line := range side[0] {
			f := strings.Fields(line)
			switch {
			case has[line] || len(f) < 2:
			case len(f) == 2: // a checksum and a path
				paths = append(paths, f[1])
			case f[0] == "=": // several names of one file
				paths = append(paths, slices.DeleteFunc(f, func(s string) bool { return s == "=" })...)
			default:
				paths = append(paths, f[0])
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// unnamed returns the paths that differ between two states and that an undo's output does not name.
// A path counts as named if the output says how many files in its directory differ.
func (n *container) unnamed(before, after, said string) (paths []string) {
	for _, path := range n.differing(before, after) {
		path = filepath.Join(n.home, path)
		dir, named := path, false
		for !named && dir != "/" {
			rel := strings.TrimPrefix(dir, n.project+"/")
			named = slices.ContainsFunc([]string{dir, rel}, func(p string) bool {
				return strings.Contains(said, " "+p+": ") || strings.Contains(said, " "+p+"/* (")
			})
			dir = filepath.Dir(dir)
		}
		if !named {
			paths = append(paths, path)
		}
	}
	return paths
}

// tail returns the end of a long text.
func tail(s string) string { return s[max(0, len(s)-600):] }
