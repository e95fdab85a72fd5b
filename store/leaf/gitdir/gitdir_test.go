package gitdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for part, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, "git~1": true, "GIT~2": true, ".git ": true, ".git. .": true, ".git::$INDEX_ALLOCATION": true,
		".g\u200cit": true, "\u200d.git": true, ".gıt": false, ".gitignore": false, ".github": false, "git": false, "x.git": false, "git~": false, "git~x": false,
		"": false, ".": false, "..": false, ".gi": false, "GIT-VERSION": false, "\xff.git": false,
	} {
		if Name(part) != want {
			t.Errorf("%q: %v", part, !want)
		}
	}
	if !In("a/.GIT/hooks/x") || !In(".git") || In("a/b.git/c") {
		t.Error("of a path")
	}
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "--bare", "bare"}, {"init", "-q", "--separate-git-dir", "apart", "tree"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	for name, want := range map[string]bool{"bare": true, "apart": true, "tree": false, "bare/objects": false, ".": false} {
		root, err := os.OpenRoot(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if Is(root.Lstat) != want {
			t.Errorf("%s: %v", name, !want)
		}
		root.Close()
	}
}

// Outside returns the git directory to which the ".git" file of a work tree points.
func TestOutside(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"gitdir: /r/.git/worktrees/t\n", "/r/.git/worktrees/t"},
		{"gitdir: ../r/.git/worktrees/t\n", "/r/.git/worktrees/t"},
		{"gitdir: .real\n", ""},
		{"gitdir: TREE/sub/.git\n", ""},
		{"gitdir: \n", ""},
		{"something", ""},
	} {
		tree := t.TempDir()
		text, want := strings.ReplaceAll(c.text, "TREE", tree), c.want
		if strings.Contains(c.text, "../r") {
			want = filepath.Join(filepath.Dir(tree), want)
		}
		if err := os.WriteFile(filepath.Join(tree, ".git"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Outside(tree); got != want {
			t.Errorf("%q: %q, want %q", c.text, got, want)
		}
	}
	tree := t.TempDir()
	if err := os.Symlink("/r/x.git", filepath.Join(tree, ".git")); err != nil {
		t.Fatal(err)
	}
	if got := Outside(tree); got != "/r/x.git" {
		t.Errorf("a link: %q", got)
	}
	if got := Outside(t.TempDir()); got != "" {
		t.Errorf("no repository: %q", got)
	}
}

// SeparateGitDir finds the git directories whose files are not saved: that of a work tree that
// contains the project, and one in the project that is not called .git.
func TestApart(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"own/.git/worktrees/w", "own/sub", "own/w", "meta/meta.git", "linked/real", "part/.git", "part/of/it", "apart/of/it", "none/x"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"meta/.git": "gitdir: meta.git\n", "own/w/.git": "gitdir: ../.git/worktrees/w\n", "apart/.git": "gitdir: /r/x.git\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", at("linked/.git")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tree, want string
		inside     bool
	}{
		{"own", "", false}, {"own/sub", at("own/.git"), false}, {"own/w", at("own/.git/worktrees/w"), false},
		{"meta", at("meta/meta.git"), true}, {"linked", at("linked/real"), true},
		{"part/of/it", at("part/.git"), false}, {"apart/of/it", "/r/x.git", false}, {"none/x", "", false},
	} {
		if dir, inside := SeparateGitDir(at(c.tree)); dir != c.want || inside != c.inside {
			t.Errorf("%s: %q, inside %v; want %q, %v", c.tree, dir, inside, c.want, c.inside)
		}
	}
}
