package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
)

// worktreeEvent is what Claude Code says when it wants a worktree of its own for a session
// or an agent, and when it wants one removed. It takes the last line that is printed as the
// worktree's directory, and keeps a worktree whose removal fails.
type worktreeEvent struct {
	Cwd  string `json:"cwd"`
	Name string `json:"name"`          // WorktreeCreate
	Path string `json:"worktree_path"` // WorktreeRemove
}

// maxEvent bytes are read.
const maxEvent = 1 << 20

// besideSuffix is what the directory of a project's worktrees has behind the project's
// name. It lies beside it: a fork cannot lie in its project.
const besideSuffix = ".worktrees"

// branchPrefix begins the client's own names of worktrees' branches.
const branchPrefix = "worktree-"

// AnswerWorktree answers WorktreeCreate and WorktreeRemove: a worktree is a fork of the
// project, with what git ignores, on a branch of its own. The hooks are the user's for all
// projects, so where cachebro knows nothing of one, a worktree is what git makes of it.
func AnswerWorktree(ctx context.Context, e *cli.Env, event string) error {
	b, err := io.ReadAll(io.LimitReader(e.Stdin, maxEvent))
	if err != nil {
		return err
	}
	var ev worktreeEvent
	if err := json.Unmarshal(b, &ev); err != nil {
		return fmt.Errorf("%s: read the event: %w", event, err)
	}
	if event == "WorktreeRemove" {
		return removeWorktree(ctx, e, ev.Path)
	}
	if filepath.IsAbs(ev.Cwd) {
		e.Dir = ev.Cwd
	}
	name := strings.ReplaceAll(ev.Name, "/", "+") // as the client does
	if !plainName(name) {
		return fmt.Errorf("%s: %s is no name for a directory", event, cli.Quote(ev.Name))
	}
	dir, err := makeWorktree(ctx, e, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Stdout, dir)
	return err
}

func plainName(name string) bool {
	return name != "" && len(name) < 200 && !strings.ContainsAny(name[:1], ".-") && !strings.Contains(name, "..") && strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-", r))
	}) < 0
}

// makeWorktree makes the worktree of that name, or finds the one that was made before.
func makeWorktree(ctx context.Context, e *cli.Env, name string) (string, error) {
	t, err := e.Locate(".")
	if err != nil {
		return gitWorktree(ctx, e, name)
	}
	// A repository that lies in the project is not the project's: a fork would have no git.
	if top, err := git(ctx, e.Dir, "rev-parse", "--show-toplevel"); err == nil && top != t.Base() && top != t.Root {
		return gitWorktree(ctx, e, name)
	}
	beside := filepath.Join(filepath.Dir(t.Root), filepath.Base(t.Root)+besideSuffix)
	dir := filepath.Join(beside, name)
	if from, ok := OriginOf(e, dir); ok && from.Root == t.Root && cli.IsDir(dir) {
		m := made{Root: dir}
		m.mount(ctx, e)
		m.sayNotes(e)
		return dir, nil
	}
	if err := os.Mkdir(beside, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	m, err := makeFork(ctx, e, dir, options{ignored: true, branch: freeBranch(ctx, t.Base(), name)})
	if err != nil {
		_ = os.Remove(beside) // only when it is empty
		return "", err
	}
	for _, l := range m.Answer.Lost {
		m.notes = append(m.notes, fmt.Sprintf("not in it: %s: %s", cli.Quote(string(l.Path)), l.Why))
	}
	m.sayNotes(e)
	return m.Root, nil
}

func (m *made) sayNotes(e *cli.Env) {
	for _, n := range m.notes {
		fmt.Fprintln(e.Stderr, "note: "+n)
	}
}

// freeBranch is a branch that the repository does not have yet.
func freeBranch(ctx context.Context, top, name string) string {
	branch := branchPrefix + name
	for n := 2; ; n++ {
		if _, err := git(ctx, top, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
			return branch
		}
		branch = fmt.Sprintf("%s%s-%d", branchPrefix, name, n)
	}
}

// gitWorktree does what the client does without hooks.
func gitWorktree(ctx context.Context, e *cli.Env, name string) (string, error) {
	top, err := git(ctx, e.Dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("%s is no project of cachebro and no git repository: %w", cli.Quote(e.Dir), err)
	}
	dir := filepath.Join(top, ".claude", "worktrees", name)
	if cli.IsDir(dir) {
		own, err := git(ctx, dir, "rev-parse", "--show-toplevel")
		if err == nil && own != dir {
			err = fmt.Errorf("%s is there and is no worktree", cli.Quote(dir))
		}
		return dir, err
	}
	_, err = git(ctx, top, "worktree", "add", "--quiet", "-b", freeBranch(ctx, top, name), dir, "HEAD")
	return dir, err
}

// removeWorktree drops a fork, unless it holds what is nowhere else: the client then says
// that it is kept. A branch with commits of its own stays.
func removeWorktree(ctx context.Context, e *cli.Env, dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s is no worktree", cli.Quote(dir))
	}
	dir = cli.ResolveParents(filepath.Clean(dir))
	from, ok := OriginOf(e, dir)
	if !ok {
		_, err := git(ctx, dir, "worktree", "remove", dir)
		return err
	}
	f, err := find(e, dir)
	if err != nil {
		return err
	}
	branch, _ := git(ctx, dir, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err := dropFork(ctx, e, f, options{}); err != nil {
		return err
	}
	if strings.HasPrefix(branch, branchPrefix) {
		_, _ = git(ctx, from.Root, "branch", "--delete", branch) // only what is merged
	}
	if beside := filepath.Dir(dir); beside == from.Root+besideSuffix {
		_ = os.Remove(beside) // only when it is empty
	}
	return nil
}
