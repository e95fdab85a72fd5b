//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/scripts/contained"
)

// netScripts are the scripts that a watched command runs on the directory "tree".
var netScripts = []string{
	`rm -rf tree`,
	`for f in tree/sub/f*; do echo new >$f; done; rm -rf tree/big1 tree/deep`,
	`for f in tree/sub/f*; do echo more >>$f; echo x >$f.tmp; mv $f.tmp $f; done; truncate -s 7 tree/big2`,
	`mv tree/sub tree/sub2; mv tree/deep tree/sub; find tree/sub2 -type f -exec sed -i s/1/one/ {} ';'`,
	`chmod -R go-rwx tree; cp -r tree copy; rm -r tree/sub; mv copy tree/sub; ln tree/big1 tree/link2; ln -sf x tree/soft`,
	`tar cf t.tar tree; rm -rf tree; tar xf t.tar; rm t.tar; rm -r tree/sub/f1*`,
	`echo gone >tree/empty; sed -i s/1/one/ tree/soft tree/seven; truncate -s 100 tree/big2; mkdir over; rm -r tree/deep; mv -T tree/sub over; mv over tree/deep; rm tree/big1; chmod -R go-rwx,u-w tree`,
}

const netTree = `mkdir -p tree/sub tree/deep/er; i=0; while [ $i -lt 150 ]; do echo $i 1 >tree/sub/f$i; i=$((i+1)); done
head -c 200000 /dev/urandom >tree/big1; head -c 3000000 /dev/urandom >tree/big2; ln tree/big1 tree/hard; ln tree/sub/f7 tree/seven
ln -s big1 tree/soft; echo d >tree/deep/er/d; chmod 640 tree/sub/f1*; chmod 700 tree/deep; : >tree/empty`

// netDeaths lists the processes that are killed while the command runs, and says whether the
// command may then fail.
var netDeaths = []struct {
	names []string
	fails bool
}{
	{}, {names: []string{"net"}}, {names: []string{"net"}}, {names: []string{"daemon"}}, {names: []string{"net", "daemon"}},
	{names: []string{"run"}}, {names: []string{"run", "net"}, fails: true}, {names: []string{"run", "net", "daemon"}, fails: true},
}

// netRounds kills our processes while watched commands run, and then undoes each command.
func netRounds(s settings) (err error) {
	if _, err := os.Stat("/dev/fuse"); err == nil && os.Getenv(withoutFuse) == "" {
		return netAsUser(s)
	}
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(s.keep || err != nil)) }()
	rng := rand.New(rand.NewSource(s.seed))
	kills, named, wrong := map[string]int{}, 0, 0
	fmt.Printf("seed %d, %d rounds\n", s.seed, s.rounds)
	for i := range s.rounds {
		// Use by turns the project, which is not mounted, and a directory outside the project.
		dir := []string{p.dir, filepath.Join(p.base, "home")}[i%2]
		n, bad, err := p.netRound(dir, i, s, rng, kills)
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		named += n
		if len(bad) > 0 {
			wrong++
			fmt.Printf("round %d:\n    %s\n", i, strings.Join(bad, "\n    "))
			if s.keep {
				break
			}
		}
	}
	fmt.Printf("%d rounds, killed %v: %d with something lost that nothing names, %d differences that are named\n", s.rounds, kills, wrong, named)
	if wrong > 0 {
		return errors.New("not everything came back")
	}
	return nil
}

// withoutFuse is set in the environment once /dev/fuse is hidden.
const withoutFuse = "FAULTS_WITHOUT_FUSE"

// netAsUser runs netRounds in a mount namespace without /dev/fuse as an ordinary user without
// capabilities, in a directory of that user.
func netAsUser(s settings) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "cachebro-net")
	if err != nil {
		return err
	}
	if err := os.Chown(dir, contained.User, contained.User); err != nil {
		return err
	}
	args := contained.As(nil, append(append([]string{exe}, os.Args[1:]...), "-dir", dir)...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), withoutFuse+"=1"), os.Stdout, os.Stderr
	err = cmd.Run()
	if err != nil || s.keep {
		fmt.Println("left in", dir)
		return err
	}
	return os.RemoveAll(dir)
}

// enterWithoutFuse starts this program again, in place of this process, in a mount namespace
// without /dev/fuse.
func enterWithoutFuse() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args := contained.WithoutFuse(append([]string{exe}, os.Args[1:]...)...)
	path, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	return syscall.Exec(path, args, append(os.Environ(), withoutFuse+"=1"))
}

func (p *place) netRound(dir string, i int, s settings, rng *rand.Rand, kills map[string]int) (named int, bad []string, err error) {
	sh := func(script string) ([]byte, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, p.env
		return cmd.CombinedOutput()
	}
	dir = filepath.Join(dir, fmt.Sprint("round", i)) // a separate directory for each round, so that the history of another round does not matter
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, nil, err
	}
	defer func() {
		if err == nil && len(bad) == 0 {
			err = os.RemoveAll(dir)
		}
	}()
	if out, err := sh(netTree); err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, out)
	}
	none := filepath.Join(p.base, "none")
	if err := os.MkdirAll(none, 0o700); err != nil {
		return 0, nil, err
	}
	before, err := take(filepath.Join(dir, "tree"), none)
	if err != nil {
		return 0, nil, err
	}
	time.Sleep(50 * time.Millisecond) // wait, because file times lag a little behind the clock
	began := time.Now()
	script := netScripts[rng.Intn(len(netScripts))]
	death := netDeaths[rng.Intn(len(netDeaths))]
	pause := time.Duration(rng.Intn(400)) * time.Millisecond
	mark := fmt.Sprintf("FAULTS_ROUND=%d", i)
	cmd := p.command("run", "--dir", p.dir, "--", "sh", "-ec", "cd "+dir+"; "+script)
	cmd.Env = append(cmd.Env, mark)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	time.Sleep(pause)
	at := p.processes()
	at["run"] = cmd.Process.Pid
	for _, name := range death.names {
		if at[name] != 0 && syscall.Kill(at[name], syscall.SIGKILL) == nil {
			kills[name]++
		}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var failed error
	select {
	case failed = <-done:
	case <-time.After(time.Minute):
		return 0, nil, errors.Join(fmt.Errorf("%q does not end after %v were killed", script, death.names), cmd.Process.Kill())
	}
	for deadline := time.Now().Add(time.Minute); running(mark); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return 0, nil, fmt.Errorf("%q goes on for ever after %v were killed", script, death.names)
		}
	}
	mayFail := death.fails || slices.Contains(death.names, "run")
	if failed != nil && !mayFail {
		bad = append(bad, fmt.Sprintf("%q failed when %v were killed: %v: %s", script, death.names, failed, said.String()))
	}
	undo := p.command("undo", "--yes", "--dir", p.dir, "--since", stamp(began))
	out, uerr := undo.CombinedOutput()
	status := undo.ProcessState.ExitCode()
	after, err := take(filepath.Join(dir, "tree"), none)
	if err != nil {
		after = &snapshot{names: map[string]entry{}, files: map[uint64][]string{}, git: map[string]uint64{}}
	}
	list := differences(before, after)
	problems := strings.Join(problemLines(string(out)), "\n")
	for _, d := range list {
		if slices.ContainsFunc(append(d.also, d.path), func(name string) bool {
			path := filepath.Join(dir, "tree", name)
			return strings.Contains(problems, path) || strings.Contains(problems, " "+strings.TrimPrefix(path, p.dir+"/"))
		}) {
			named++
		} else {
			bad = append(bad, d.String())
		}
	}
	if len(list) > 0 && status == 0 {
		bad = append(bad, fmt.Sprintf("status 0, but %v", list))
	}
	if s.verbose || len(bad) > 0 {
		fmt.Printf("round %d: %q in %s, %v killed after %v: status %d, %d differences (%v)\n%s\n", i, script, dir, death.names, pause, status, len(list), uerr, problems)
	}
	if len(bad) > 0 {
		bad = append(bad[:min(len(bad), 12)], fmt.Sprintf("run said: %s", said.String()), fmt.Sprintf("undo said: %.1500s", out))
	}
	return named, bad, nil
}

// running reports whether any process except cachebro's own has mark in its environment.
func running(mark string) bool {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(append(env, 0), []byte(mark+"\x00")) {
			continue
		}
		if comm, _ := os.ReadFile(d + "/comm"); !strings.HasPrefix(string(comm), "cachebro") {
			return true
		}
	}
	return false
}
