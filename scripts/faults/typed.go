//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// typed types lines into an interactive shell in tmux: builtins, pipelines, loops, scripts, git.
// For each typed line that changed something, the log must have one line. Undoing the newest line
// of the log again and again must restore every earlier state of the tree.
func typed(s settings) (err error) {
	p, err := newPlace(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove(s.keep)) }()
	if err := p.in("sh", "-ec", `printf '1\n2\n3\n' >a; printf 'b\n' >b; mkdir d; printf 'one two\n' >d/e; printf 'sed -i s/1/one/ a; echo "$1" >from-script; rm -f gone\n' >run.sh; chmod 755 run.sh
git init -qb main; git config user.name t; git config user.email t@example.com; git add .; git commit -qm start`); err != nil {
		return err
	}
	if _, err := p.cachebro("mount", p.dir); err != nil {
		return err
	}
	t := &terminal{place: p, socket: filepath.Join(p.base, "tmux"), done: filepath.Join(p.base, "done")}
	if err := t.start(s.shell); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	rng := rand.New(rand.NewSource(s.seed))
	states, lines := []map[string]string{}, []string{"(start)"}
	now, err := p.tree()
	if err != nil {
		return err
	}
	states = append(states, now)
	for i := range s.lines {
		text := randomLine(rng, now, i)
		if err := t.line(text); err != nil {
			return err
		}
		now, err = p.tree()
		if err != nil {
			return err
		}
		changed := !maps.Equal(now, states[len(states)-1])
		if s.verbose {
			fmt.Printf("%d %v %s\n", i, changed, text)
		}
		if changed {
			states, lines = append(states, now), append(lines, text)
		}
	}
	told, err := p.actions()
	if err != nil {
		return err
	}
	if s.verbose {
		out, err := p.cachebro("log", p.dir)
		if err != nil {
			return err
		}
		fmt.Printf("%s", out)
	}
	wrong := 0
	if told != len(states)-1 {
		wrong++
		fmt.Printf("%d lines of the log for %d that changed something\n", told, len(states)-1)
	}
	for i := len(states) - 2; i >= 0; i-- {
		out, err := p.cachebro("undo", "--yes", "--dir", p.dir)
		now, terr := p.tree()
		if terr != nil {
			return terr
		}
		if diff := changedNames(states[i], now); err != nil || len(diff) > 0 {
			return errors.Join(fmt.Errorf("seed %d: undo of %q: %v differ; it said %s", s.seed, lines[i+1], diff, out), err)
		}
	}
	fmt.Printf("%s, seed %d: %d lines typed, %d changed something, %d in the log; %d states retraced\n", s.shell, s.seed, s.lines, len(states)-1, told, len(states)-1)
	if wrong > 0 {
		return errors.New("the log does not have one line for each")
	}
	return nil
}

// randomLine returns a line that somebody might type. It uses n to make new names and texts.
func randomLine(rng *rand.Rand, tree map[string]string, n int) string {
	var files, dirs []string
	for name, what := range tree {
		switch {
		case strings.HasPrefix(what, "d"):
			dirs = append(dirs, name)
		case strings.HasPrefix(what, "-") && name != "run.sh":
			files = append(files, name)
		}
	}
	slices.Sort(files)
	slices.Sort(dirs)
	of := func(names []string, or string) string {
		if len(names) == 0 {
			return or
		}
		return names[rng.Intn(len(names))]
	}
	f, g, d := of(files, "a"), of(files, "b"), of(dirs, ".")
	fresh := fmt.Sprintf("%s/n%d", d, n)
	forms := []string{
		"echo N >FILE", "printf 'x N\\n' >>FILE", "echo new >NEW", ": >FILE", "(echo sub N >FILE)", "{ echo N; echo b; } >FILE",
		"x=$(cat FILE); echo \"$x N\" >OTHER", "for i in 1 2 3; do echo $i N >NEW.$i; done", "while read -r l; do echo \"$l N\"; done <FILE >NEW",
		"if [ -e FILE ]; then echo yes N >OTHER; else rm OTHER; fi", "[ -e NEW ] || echo made >NEW", "eval 'echo N >FILE'", "cd DIR; echo N >inN; cd - >/dev/null",
		"sed -i '1s/.*/line N/' FILE", "sort -r FILE -o OTHER", "cp FILE NEW", "mv FILE NEW", "rm FILE", "mkdir -p NEW/deep; echo N >NEW/deep/f", "chmod 600 FILE", "chmod 644 FILE",
		"ln -s targetN NEW", "truncate -s 3 FILE", "touch NEW", "cp -r DIR copyN", "mv FILE OTHER", "rm -f FILE OTHER; echo N >FILE", "mv FILE t; mv OTHER FILE; mv t OTHER",
		"cat FILE | tr a-z A-Z | tee NEW >/dev/null", "seq N | grep 1 | head -n 3 >FILE", "cat FILE OTHER | sort | uniq >NEW", "printf '%s\\n' N | xargs -I{} sh -c 'echo {} >NEW'", "find DIR -name 'n*' -type f | head -n 2 | xargs rm -f",
		"./run.sh N", "sh run.sh N", "sh -c 'echo aN >FILE; sed -i s/a/b/ FILE; rm -f OTHER'", "python3 -c 'open(\"NEW\", \"w\").write(\"pN\")'", "perl -pi -e 's/$/ N/' FILE", "tar cf NEW.tar FILE && tar xf NEW.tar -C DIR",
		"echo AN >FILE; git commit -qam cN", "git add -A; git commit -qm allN", "git checkout -q -- .", "git mv FILE gN", "git rm -qf FILE", "git checkout -qb brN; echo b >NEW; git add -A; git commit -qm b; git checkout -q main", "git stash -q", "git stash pop -q", "git reset -q --hard HEAD~1",
		"ls >/dev/null", "cat FILE", "git status -s", "git log --oneline | head -n 3", "true", "grep -r x .", "cd .", "export V=N", "wc -l FILE",
	}
	words := strings.NewReplacer("NEW", fresh, "FILE", f, "OTHER", g, "DIR", d, "N", fmt.Sprint(n))
	return words.Replace(forms[rng.Intn(len(forms))])
}

// in runs a program in the project.
func (p *place) in(argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// tree maps each name in the project, except .git, to its mode and content.
func (p *place) tree() (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == p.dir {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		what := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += " " + string(b)
		case fi.Mode().Type() == fs.ModeSymlink:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what += " " + to
		}
		all[strings.TrimPrefix(name, p.dir+"/")] = what
		return nil
	})
	return all, err
}

func changedNames(want, got map[string]string) (names []string) {
	for name, what := range want {
		if got[name] != what {
			names = append(names, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, "+"+name)
		}
	}
	slices.Sort(names)
	return names
}

// actions counts the actions in the log that changed something.
func (p *place) actions() (n int, err error) {
	out, err := p.cachebro("log", "--actions", "--json", p.dir)
	if err != nil {
		return 0, err
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var a struct {
			Count int `json:"count"`
		}
		if err := dec.Decode(&a); err != nil {
			return 0, fmt.Errorf("log --actions --json: %w", err)
		}
		if a.Count > 0 {
			n++
		}
	}
	return n, nil
}

// terminal is a shell in tmux. Its prompt writes the number of lines that were run to a file
// outside the project, so nothing has to be added to the typed lines.
type terminal struct {
	place  *place
	socket string
	done   string
	n      int
}

func (t *terminal) tmux(args ...string) error {
	cmd := exec.Command("tmux", append([]string{"-S", t.socket, "-f", os.DevNull}, args...)...)
	cmd.Dir, cmd.Env = t.place.dir, append(t.place.env, "TERM=xterm", "HISTFILE=", "DONE="+t.done)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tmux %v: %w: %s", args, err, out)
	}
	return nil
}

func (t *terminal) start(shell string) error {
	home := filepath.Join(t.place.base, "home")
	rc := map[string]string{
		".bashrc": "PROMPT_COMMAND='echo $((++lines)) >$DONE'\nPS1='$ '\n",
		".zshrc":  "precmd() { echo $((++lines)) >$DONE }\nPS1='$ '\nsetopt interactivecomments\n",
	}
	for name, text := range rc {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := t.tmux("new-session", "-d", "-x", "250", "-y", "50", shell+" -i"); err != nil {
		return err
	}
	return t.wait("the first prompt")
}

func (t *terminal) line(text string) error {
	if err := t.tmux("send-keys", "-l", text); err != nil {
		return err
	}
	if err := t.tmux("send-keys", "Enter"); err != nil {
		return err
	}
	return t.wait(text)
}

func (t *terminal) wait(what string) error {
	t.n++
	want := fmt.Sprintln(t.n)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if b, _ := os.ReadFile(t.done); string(b) == want {
			return nil
		}
	}
	return fmt.Errorf("not carried out: %s", what)
}

func (t *terminal) end() error { return t.tmux("kill-server") }
