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
	"cachebro/store/leaf/text"
)

// worktreeEvent is the event with which Claude Code requests a worktree for a session or an agent,
// or requests the removal of a worktree. The answer is the worktree's directory, on the last line
// printed. If the removal fails, the client does not delete the worktree.
type worktreeEvent struct {
	Cwd  string `json:"cwd"`
	Name string `json:"name"`          // WorktreeCreate
	Path string `json:"worktree_path"` // WorktreeRemove
}

const maxEvent = 1 << 20

// worktreesSuffix is appended to the project's name to name the directory of its worktrees. That
// directory is next to the project, because a fork cannot be inside its own project.
const worktreesSuffix = ".worktrees"

// branchPrefix begins the names of branches that the client gives to worktrees.
const branchPrefix = "worktree-"

// AnswerWorktree answers WorktreeCreate and WorktreeRemove. A worktree becomes a fork of the
// project on its own branch, including files that git ignores. The hooks apply to all projects of
// the user, so in a project without a history AnswerWorktree makes an ordinary git worktree.
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
		return fmt.Errorf("%s: %s cannot be the name of a directory", event, cli.Quote(ev.Name))
	}
	dir, err := makeWorktree(ctx, e, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Stdout, dir)
	return err
}

var plain = text.LazyRegexp(`^[\w+][\w.+\-]{0,198}$`)

func plainName(name string) bool { return plain().MatchString(name) && !strings.Contains(name, "..") }

// makeWorktree makes the worktree called name, or returns the one that exists already.
func makeWorktree(ctx context.Context, e *cli.Env, name string) (string, error) {
	t, err := e.Locate(".")
	if err != nil {
		return gitWorktree(ctx, e, name)
	}
	// Let git make the worktree of a repository that is nested in the project, because a fork would
	// not contain it.
	if top, err := git(ctx, e.Dir, "rev-parse", "--show-toplevel"); err == nil && top != t.Base() && top != t.Root {
		return gitWorktree(ctx, e, name)
	}
	worktrees := filepath.Join(filepath.Dir(t.Root), filepath.Base(t.Root)+worktreesSuffix)
	dir := filepath.Join(worktrees, name)
	if from, ok := OriginOf(e, dir); ok && from.Root == t.Root && cli.IsDir(dir) {
		m := newFork{Root: dir}
		m.mount(ctx, e)
		m.printNotes(e)
		return dir, nil
	}
	if err := os.Mkdir(worktrees, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	m, err := makeFork(ctx, e, dir, options{ignored: true, branch: freeBranch(ctx, t.Base(), name)})
	if err != nil {
		_ = os.Remove(worktrees) // fails if it is not empty
		return "", err
	}
	for _, l := range m.Answer.Lost {
		m.notes = append(m.notes, fmt.Sprintf("not copied: %s: %s", cli.Quote(string(l.Path)), l.Why))
	}
	m.printNotes(e)
	return m.Root, nil
}

func (m *newFork) printNotes(e *cli.Env) {
	for _, n := range m.notes {
		fmt.Fprintln(e.Stderr, "note: "+n)
	}
}

// freeBranch returns the name of a branch that the repository does not have yet.
func freeBranch(ctx context.Context, top, name string) string {
	branch := branchPrefix + name
	for n := 2; ; n++ {
		if _, err := git(ctx, top, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
			return branch
		}
		branch = fmt.Sprintf("%s%s-%d", branchPrefix, name, n)
	}
}

// gitWorktree makes a worktree as the client would without hooks.
func gitWorktree(ctx context.Context, e *cli.Env, name string) (string, error) {
	top, err := git(ctx, e.Dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("%s is neither a project of cachebro nor a git repository: %w", cli.Quote(e.Dir), err)
	}
	dir := filepath.Join(top, ".claude", "worktrees", name)
	if cli.IsDir(dir) {
		own, err := git(ctx, dir, "rev-parse", "--show-toplevel")
		if err == nil && own != dir {
			err = fmt.Errorf("%s exists and is not a worktree", cli.Quote(dir))
		}
		return dir, err
	}
	_, err = git(ctx, top, "worktree", "add", "--quiet", "-b", freeBranch(ctx, top, name), dir, "HEAD")
	return dir, err
}

// removeWorktree drops a fork. It fails if the fork contains something that exists nowhere else,
// and the client then reports that the worktree remains. removeWorktree does not delete an unmerged
// branch.
func removeWorktree(ctx context.Context, e *cli.Env, dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s is not a worktree", cli.Quote(dir))
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
		_, _ = git(ctx, from.Root, "branch", "--delete", branch) // fails if it is not merged
	}
	if worktrees := filepath.Dir(dir); worktrees == from.Root+worktreesSuffix {
		_ = os.Remove(worktrees) // fails if it is not empty
	}
	return nil
}
