package gitdir

import (
	"os"
	"os/exec"
	"path/filepath"
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
