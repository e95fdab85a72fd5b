package ignore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "", "add", "-A")
	git(t, dir, "", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x")
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v %s", args, err, out)
	}
}

func want(t *testing.T, m *Matcher, classes map[string]Class) {
	t.Helper()
	for p, c := range classes {
		dir := strings.HasSuffix(p, "/")
		if got := m.Class(strings.TrimSuffix(p, "/"), dir); got != c {
			t.Errorf("%q is %v, want %v", p, got, c)
		}
	}
}

// A repository within the project has its own rules and its own index.
func TestNestedRepositories(t *testing.T) {
	root := tree(t, map[string]string{".gitignore": "*.log\n/deps/\n/wt/\n", ".cachebroignore": "*.iso\n",
		"own/a.log": "", "own/b.tmp": "", "own/forced.tmp": "", "own/.gitignore": "*.tmp\n", "deps/clone/x.c": "", "x.c": ""})
	git(t, root, "", "init", "-q")
	for _, d := range []string{"own", "deps/clone"} {
		git(t, filepath.Join(root, d), "", "init", "-q")
	}
	git(t, filepath.Join(root, "own"), "", "add", "-f", "forced.tmp")
	put(t, root, "own/.git/info/exclude", "*.priv\n")
	git(t, root, "", "add", "x.c", ".gitignore")
	git(t, root, "", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x")
	git(t, root, "", "worktree", "add", "-q", "wt/one")
	put(t, root, "wt/one/new.c", "")
	put(t, root, "wt/one/new.log", "")
	m := open(t, root, Options{})
	want(t, m, map[string]Class{
		"own/a.log": Tracked, "own/b.tmp": Ignored, "own/forced.tmp": Tracked, "own/x.priv": Ignored, "x.priv": Tracked, "own/d.iso": Excluded,
		"a.log": Ignored, "deps/clone/x.c": Ignored, "deps/clone/": Ignored, "own/": Tracked, "own/.git/HEAD": Excluded,
		"wt/one/new.c": Tracked, "wt/one/new.log": Ignored, "wt/one/x.c": Tracked, "wt/one/": Tracked, "wt/two": Ignored, "wt/one/.git": Excluded,
	})
}

// The .git file of a worktree may name an absolute path that leads back into
// the project, which mountd must not open through its own mount.
func TestGitDirInsideIsReadBeneathTheRoot(t *testing.T) {
	root := tree(t, map[string]string{"x.c": ""})
	git(t, root, "", "init", "-q")
	commit(t, root)
	git(t, root, "", "worktree", "add", "-q", "wt")
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	m, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := m.source.findRepo("wt")
	if r == nil || !r.linked || r.gitDir != ".git/worktrees/wt" {
		t.Fatalf("the worktree's repository: %+v", r)
	}
	if !r.has("wt/x.c", time.Now()) || r.has("wt/y.c", time.Now()) {
		t.Error("its index was not read")
	}
}

// In a part of a work tree, the rules of the directories above apply.
func TestPartOfAWorkTree(t *testing.T) {
	root := tree(t, map[string]string{".gitignore": "*.log\n/packages/app/gen\n", "packages/.gitignore": "!keep.log\napp/*.x\n",
		"packages/app/.gitignore": "local\n", "packages/app/forced.x": "", "packages/app/node_modules/y": "", "packages/app/package.json": ""})
	git(t, root, "", "init", "-q")
	git(t, root, "", "add", "-f", "packages/app/forced.x")
	put(t, root, ".git/info/exclude", "/packages/app/priv\n")
	m := open(t, filepath.Join(root, "packages/app"), Options{})
	want(t, m, map[string]Class{"a.log": Ignored, "keep.log": Tracked, "gen/a": Ignored, "b.x": Ignored, "sub/b.x": Tracked, "forced.x": Tracked,
		"local": Ignored, "priv": Ignored, "a.c": Tracked, "node_modules/y": Tracked})
}

// A negated line of a .cachebroignore removes a directory from the built-in list.
func TestBuiltInCanBeTurnedOff(t *testing.T) {
	root := tree(t, map[string]string{".gitignore": "node_modules/\n.venv/\n", ".cachebroignore": "!node_modules/\n", "package.json": "", "node_modules/a": "", ".venv/b": ""})
	git(t, root, "", "init", "-q")
	want(t, open(t, root, Options{}), map[string]Class{"node_modules/a": Ignored, "node_modules/": Ignored, ".venv/b": Excluded})
}

// A directory that is renamed keeps its rules.
func TestForget(t *testing.T) {
	root := tree(t, map[string]string{"a/.gitignore": "*.o\n", "a/sub/x.o": ""})
	git(t, root, "", "init", "-q")
	m := open(t, root, Options{})
	want(t, m, map[string]Class{"a/x.o": Ignored, "a/sub/x.o": Ignored, "b/x.o": Tracked, "b/sub/x.o": Tracked})
	if err := os.Rename(filepath.Join(root, "a"), filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	m.Forget("a", true)
	m.Forget("b", true)
	want(t, m, map[string]Class{"a/x.o": Tracked, "a/sub/x.o": Tracked, "b/x.o": Ignored, "b/sub/x.o": Ignored})
}

// TestReloadOfOneDirectory: when a file with rules appears or disappears below the root, the
// matcher drops as little as possible, and its answers equal those of a new matcher.
func TestReloadOfOneDirectory(t *testing.T) {
	files := map[string]string{".gitignore": "node_modules/\ntarget/\ncache/\n*.o\n"}
	paths := []string{"a.o"}
	for _, d := range []string{"p", "p/q", "p/q/r", "s"} {
		for _, name := range []string{"f.txt", "f.o", "node_modules/x/y.js", "target/z.txt", "cache/c.txt"} {
			files[d+"/"+name] = "x"
			paths = append(paths, d+"/"+name)
		}
	}
	root := tree(t, files)
	git(t, root, "", "init", "-q")
	m := open(t, root, Options{})
	rules := map[string]string{".gitignore": "*.txt\n!f.o\n", ".cachebroignore": "f.*\n", "package.json": "{}", "Cargo.toml": "", "cache/CACHEDIR.TAG": "Signature"}
	for _, d := range []string{"p/q", "p", "s", "p/q/r"} {
		for name, text := range rules {
			for _, gone := range []bool{false, true} {
				for _, p := range paths {
					m.Class(p, false)
				}
				if rule := filepath.Join(root, d, name); gone {
					if err := os.Remove(rule); err != nil {
						t.Fatal(err)
					}
				} else {
					put(t, root, d+"/"+name, text)
				}
				if !IsRuleFile(d + "/" + name) {
					t.Fatalf("%s/%s is no file with rules", d, name)
				}
				m.Reload(d + "/" + name)
				fresh := open(t, root, Options{})
				for _, p := range paths {
					if got, want := m.Class(p, false), fresh.Class(p, false); got != want {
						t.Errorf("%s/%s, gone %v: %s is %v, want %v", d, name, gone, p, got, want)
					}
				}
			}
		}
	}
}

// An index may contain conflicts, or directories in place of their files.
func TestOddIndexes(t *testing.T) {
	ix := &tracked{names: "a/b/c", begins: []uint32{0, 2, 4}} // "a/", "b/", "c"
	ix.dirs = true
	for p, in := range map[string]bool{"a/x/y": true, "b/z": true, "c": true, "c/d": false, "d": false} {
		if ix.has(p) != in {
			t.Errorf("%s: %v", p, !in)
		}
	}
	root := tree(t, map[string]string{"f": "0\n"})
	git(t, root, "", "init", "-q", "-b", "main")
	commit(t, root)
	git(t, root, "", "checkout", "-qb", "other")
	put(t, root, "f", "1\n")
	commit(t, root)
	git(t, root, "", "checkout", "-q", "main")
	put(t, root, "f", "2\n")
	commit(t, root)
	git(t, root, "", "-c", "user.name=t", "-c", "user.email=t@example.org", "rebase", "-q", "--merge", "--no-verify", "main") // nothing to do
	if out := git(t, root, "", "ls-files", "-s"); !strings.Contains(out, "\tf") {
		t.Fatal(out)
	}
	put(t, root, "conflict.sh", "git -c user.name=t -c user.email=t@example.org merge -q other || true\n")
	run(t, root, "sh", "conflict.sh")
	raw, err := os.ReadFile(filepath.Join(root, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readIndex(raw)
	if err != nil || !got.has("f") || len(got.begins) != 1 {
		t.Errorf("an index with a conflict: %+v, %v", got, err)
	}
}

func BenchmarkProject(b *testing.B) {
	root := b.TempDir()
	rules := strings.Repeat("*.o\n*.so\n/build/\ndist/\n*.log\n.cache\ntmp/\n!important.log\nfoo/**/bar\ndocs/_build\n", 5)
	os.MkdirAll(filepath.Join(root, "pkg/sub/deep"), 0o755)
	os.WriteFile(filepath.Join(root, ".gitignore"), []byte(rules), 0o644)
	os.Mkdir(filepath.Join(root, ".git"), 0o755)
	dir, err := os.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	m, err := New(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	names := make([]string, 64)
	for i := range names {
		names[i] = fmt.Sprintf("pkg/sub/deep/file%d.go", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Class(names[i%len(names)], false)
	}
}
