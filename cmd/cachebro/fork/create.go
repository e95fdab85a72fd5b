package fork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// newFork describes a new fork, as printed for people and scripts.
type newFork struct {
	Root    string          `json:"root"`
	Origin  string          `json:"origin"`
	Git     string          `json:"git,omitempty"` // the commit of its HEAD
	Mounted bool            `json:"mounted"`
	Answer  wire.ForkAnswer `json:"-"`
	at      time.Time
	notes   []string
}

func create(ctx context.Context, e *cli.Env, dir string, o options) error {
	m, err := makeFork(ctx, e, dir, o)
	if err != nil {
		return err
	}
	m.printNotes(e)
	if o.json {
		err = printFork(e, m)
	} else {
		printSummary(e, m)
	}
	if err == nil && len(m.Answer.Lost) > 0 {
		err = cli.ExitStatus(1)
	}
	return err
}

// makeFork makes a fork. On failure it removes what it has made so far.
func makeFork(ctx context.Context, e *cli.Env, given string, o options) (m newFork, err error) {
	t, c, err := e.Open(ctx, ".")
	if err != nil {
		return m, err
	}
	defer c.Close()
	m.Origin, m.at = t.Root, e.Now()
	q := wire.ForkQuery{Ignored: o.ignored}
	if o.at != "" {
		at, err := mounting.Moment(ctx, e, c, o.at)
		if err != nil {
			return m, err
		}
		if at.Seq == 0 {
			return m, cli.Hintf("cachebro log --baselines --reverse", "the history of %s begins later", cli.Quote(t.Root))
		}
		q.Seq, m.at = at.Seq, at.At
	}
	m.Root, err = e.Abs(given)
	if err != nil {
		return m, err
	}
	m.Root = cli.ResolveParents(m.Root)
	for _, top := range []string{t.Root, t.Point} {
		if top != "" && mounts.Within(m.Root, top) {
			return m, cli.Hintf("cachebro fork ../"+cli.Arg(filepath.Base(m.Root)), "a fork cannot be inside its own project")
		}
	}
	existed, unlock, err := reserve(m.Root)
	if err != nil {
		return m, err
	}
	defer unlock()
	begun := false
	defer func() {
		switch {
		case err == nil:
		case begun:
			m.removeCreated(existed)
		case !existed:
			_ = os.Remove(m.Root)
		}
	}()
	// Refuse a path that has a history. The history belongs to another project, and fork drop would
	// delete it.
	state, err := e.Paths().State(m.Root)
	if err != nil {
		return m, err
	}
	if old, err := mounting.ReadOrigin(state); err == nil {
		return m, cli.Hintf("cachebro fork drop "+cli.Arg(m.Root)+" forgets it", "%s was a fork of %s, whose history is still here", cli.Quote(m.Root), cli.Quote(old.Root))
	}
	if cli.IsDir(state) {
		return m, cli.Hintf("cachebro fork "+cli.Arg(m.Root+"-2"), "%s was a project whose history is still here", cli.Quote(m.Root))
	}
	begun = true
	from, err := e.Paths().State(t.Root)
	if err != nil {
		return m, err
	}
	err = m.checkOut(ctx, t, from, o)
	if err != nil {
		return m, err
	}
	to, err := os.Open(m.Root)
	if err != nil {
		return m, err
	}
	defer to.Close()
	done := e.Watch(ctx, func(context.Context) string { return "copying " + cli.Quote(t.Root) })
	m.Answer, err = c.Fork(ctx, q, to)
	done()
	if err != nil {
		return m, err
	}
	_, err = e.Paths().MakeState(m.Root)
	if err != nil {
		return m, err
	}
	err = mounting.Origin{Root: t.Root, Fork: m.Root, Seq: m.Answer.Seq, At: m.at, Made: e.Now(), Git: m.Git != "", Absent: m.Answer.Absent}.Write(state)
	if err != nil {
		return m, errors.Join(err, os.RemoveAll(state))
	}
	m.mount(ctx, e)
	return m, nil
}

// reserve makes the directory of a fork, unless an empty one exists, and locks it until unlock is
// called. If several forks are made in the same directory at once, the first one gets it.
func reserve(dir string) (existed bool, unlock func(), err error) {
	existed, err = emptyDir(dir)
	if err != nil {
		return existed, nil, err
	}
	err = os.Mkdir(dir, 0o777)
	existed = errors.Is(err, fs.ErrExist)
	if err != nil && !existed {
		return existed, nil, err
	}
	unlock, err = cli.LockDir(dir)
	if err != nil {
		return existed, nil, err
	}
	still, err := emptyDir(dir)
	if err == nil && !still {
		err = fmt.Errorf("%s was deleted meanwhile", cli.Quote(dir))
	}
	if err != nil {
		unlock()
	}
	return existed, unlock, err
}

func emptyDir(dir string) (existed bool, err error) {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !cli.IsDir(filepath.Dir(dir)) {
			return false, cli.Hintf("mkdir -p "+cli.Arg(filepath.Dir(dir)), "%s does not exist", cli.Quote(filepath.Dir(dir)))
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !fi.IsDir() {
		return true, cli.Hintf("name a directory that does not exist", "%s is not a directory", cli.Quote(dir))
	}
	f, err := os.Open(dir)
	if err != nil {
		return true, err
	}
	defer f.Close()
	if _, err := f.Readdirnames(1); err != io.EOF {
		return true, cli.Hintf("name a directory that is empty or does not exist", "%s is not empty", cli.Quote(dir))
	}
	return true, nil
}

// git runs a git command in a directory and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(gitdir.Command(ctx, dir, args...))
}

func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(cli.OneLine(strings.TrimSpace(string(exit.Stderr))))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// checkOut makes the directory a worktree of the project's repository, still empty except for .git.
// If git is not installed or the repository has no commit, it adds a note instead.
func (m *newFork) checkOut(ctx context.Context, t cli.Target, state string, o options) error {
	top, before := t.Base(), o.at != ""
	if _, err := os.Lstat(filepath.Join(top, ".git")); err != nil {
		return nil
	}
	without := func(why string) error {
		m.notes = append(m.notes, "the fork is not a git worktree: "+cli.OneLine(why))
		return nil
	}
	if _, err := exec.LookPath("git"); err != nil {
		return without("git is not installed")
	}
	rev := "HEAD"
	if before { // where HEAD was at that time, if git's reflog goes back that far
		rev = "HEAD@{" + m.at.UTC().Format("2006-01-02T15:04:05Z") + "}"
	}
	commit, err := git(ctx, top, "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	if err != nil {
		commit, err = git(ctx, top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
		if err != nil {
			return without("the repository has no commit yet")
		}
	}
	index := commit
	if !before { // a fork of the present state includes what is staged
		if tree, err := staged(ctx, top); err == nil {
			index = tree
		} else {
			m.notes = append(m.notes, "staged changes are not staged in the fork: "+cli.OneLine(err.Error()))
		}
	}
	on := []string{"--detach"}
	if o.branch != "" {
		on = []string{"-b", o.branch}
	}
	// Git fails if another worktree is half made, so forks of a project ask for one at a time.
	unlock, err := cli.LockDir(state)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := git(ctx, top, slices.Concat([]string{"worktree", "add", "--quiet", "--no-checkout"}, on, []string{m.Root, commit})...); err != nil {
		return cli.Hintf("choose another directory, or another name for --branch", "git cannot make a worktree of %s: %w", cli.Quote(m.Root), err)
	}
	m.Git = commit
	if _, err := git(ctx, m.Root, "read-tree", index); err != nil {
		m.notes = append(m.notes, "git's index could not be made; run git reset -q in the fork")
	}
	return nil
}

// staged writes the content of the index as a tree and returns the tree's name. It uses a copy of
// the index, because git locks the index that it reads, which would make simultaneous forks, and git
// commands in the project, fail.
func staged(ctx context.Context, top string) (tree string, err error) {
	name, err := git(ctx, top, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return "", err
	}
	index, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without an index, git writes an empty tree
		return "", err
	}
	dir, err := os.MkdirTemp("", "cachebro-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	name = filepath.Join(dir, "index")
	if index != nil {
		if err := os.WriteFile(name, index, 0o600); err != nil {
			return "", err
		}
	}
	cmd := gitdir.Command(ctx, top, "write-tree")
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+name)
	return output(cmd)
}

// removeCreated removes what a failed attempt to make a fork has created.
func (m *newFork) removeCreated(existed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if m.Git != "" {
		if _, err := git(ctx, m.Origin, "worktree", "remove", "--force", m.Root); err == nil && existed {
			_ = os.Mkdir(m.Root, 0o777)
		}
		return
	}
	if !existed {
		_ = os.RemoveAll(m.Root)
		return
	}
	names, err := os.ReadDir(m.Root)
	if err != nil {
		return
	}
	for _, n := range names {
		_ = os.RemoveAll(filepath.Join(m.Root, n.Name()))
	}
}

// mount mounts the fork. If that fails, the fork remains an ordinary directory.
func (m *newFork) mount(ctx context.Context, e *cli.Env) {
	p, err := mounting.PlanMount(e, m.Root, mounting.MountFlags{Exact: true})
	if err == nil && !p.Already {
		_, err = mounting.Launch(ctx, e, p)
	}
	m.Mounted = err == nil
	if !m.Mounted {
		m.notes = append(m.notes, "the fork is not mounted: "+cli.OneLine(err.Error()))
	}
}

func printFork(e *cli.Env, m newFork) error {
	o := cli.Object(m, nil)
	o["seq"] = m.Answer.Seq
	o["at"] = m.at
	o["files"] = m.Answer.Files
	o["bytes"] = m.Answer.Bytes
	o["shared"] = m.Answer.Shared
	o["lost"] = cli.Objects(m.Answer.Lost, func(l wire.ForkLost) map[string][]byte { return map[string][]byte{"path": l.Path} })
	o["lost_more"] = m.Answer.More
	return e.PrintJSON(o)
}

func printSummary(e *cli.Env, m newFork) {
	a := m.Answer
	how := "copied"
	switch {
	case a.Shared > 0 && a.Shared == a.Bytes:
		how = "sharing their disk blocks with the project"
	case a.Shared > 0:
		how = text.Bytes(a.Shared) + " of that shared with the project"
	}
	fmt.Fprintf(e.Stdout, "%s is a fork of %s at version %d (%s): %s, %s, %s\n", cli.Quote(m.Root), cli.Quote(m.Origin), a.Seq, cli.Stamp(m.at, e.Now()), text.Count(a.Files, "file"), text.Bytes(a.Bytes), how)
	if len(a.Lost) > 0 {
		fmt.Fprintf(e.Stdout, "not copied, %s:\n", text.Count(len(a.Lost)+a.More, "file"))
		for _, l := range a.Lost {
			fmt.Fprintf(e.Stdout, "  %s: %s\n", cli.Quote(string(l.Path)), cli.OneLine(l.Why))
		}
		if a.More > 0 {
			fmt.Fprintf(e.Stdout, "  and %d more\n", a.More)
		}
	}
	fmt.Fprintf(e.Stdout, "cd %s; cachebro fork merge merges its changes into the project\n", cli.Arg(m.Root))
}
