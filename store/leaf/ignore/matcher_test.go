package ignore

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tree makes a directory with files; a name that ends in a slash means a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put(t, root, name, text)
	}
	return root
}

func put(t testing.TB, root, name, text string) {
	t.Helper()
	full := filepath.Join(root, name)
	if strings.HasSuffix(name, "/") {
		if err := os.MkdirAll(full, 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t testing.TB, root, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+root, "XDG_CONFIG_HOME="+root+"/.none")
	cmd.Stdin = strings.NewReader(stdin)
	var errText bytes.Buffer
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if ee, ok := err.(*exec.ExitError); err != nil && !(ok && args[0] == "check-ignore" && ee.ExitCode() == 1) {
		t.Fatalf("git %v: %v %s", args, err, errText.String())
	}
	return string(out)
}

func open(t testing.TB, root string, o Options) *Matcher {
	t.Helper()
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); dir.Close() })
	return m
}

func TestClasses(t *testing.T) {
	root := tree(t, map[string]string{
		".gitignore": "*.log\n/out/\nnode_modules/\nvenv/\n!keep.log\n", "sub/.gitignore": "!*.log\nlocal\n", ".cachebroignore": "media/\n*.iso\n",
		"a.go": "", "a.log": "", "keep.log": "", "sub/b.log": "", "sub/local": "", "out/x/y.txt": "", "forced.log": "",
		"web/package.json": "{}", ".pnpm-store/v3/files/00/a": "", "web/node_modules/x/index.js": "", "lib/node_modules/x.js": "", "venv/pyvenv.cfg": "", "venv/bin/python": "",
		"media/film.mp4": "", "disk.iso": "", "vendor/.git/config": "", "global.bak": "", "secret.priv": "", ".github/x": "", "x.git/y": "",
	})
	put(t, root, "../excludes", "*.bak\n")
	git(t, root, "", "init", "-q")
	put(t, root, ".git/info/exclude", "*.priv\n")
	git(t, root, "", "add", "-f", "a.go", "forced.log", "disk.iso")
	m := open(t, root, Options{ExcludesFile: filepath.Join(root, "../excludes")})
	for path, want := range map[string]Class{
		"a.go": Tracked, "a.log": Ignored, "keep.log": Tracked, "sub/b.log": Tracked, "sub/local": Ignored, "out/x/y.txt": Ignored,
		"forced.log": Tracked, ".git/HEAD": Excluded, ".git": Excluded, "vendor/.git/config": Excluded, ".github/x": Tracked, "x.git/y": Tracked,
		"web/node_modules/x/index.js": Excluded, ".pnpm-store/v3/files/00/a": Excluded, "lib/node_modules/x.js": Ignored, "venv/bin/python": Excluded, "venv/pyvenv.cfg": Ignored, "media/film.mp4": Excluded,
		"disk.iso": Excluded, "global.bak": Ignored, "secret.priv": Ignored, "new.go": Tracked, "": Tracked,
	} {
		if got := m.Class(path, false); got != want {
			t.Errorf("%q is %v, want %v", path, got, want)
		}
	}
	if !m.Forbidden("media/film.mp4", false) || !m.Forbidden("media", true) || m.Forbidden("venv/bin/python", false) {
		t.Error("what a .cachebroignore excludes is not told apart")
	}
	if got := m.Class("out", true); got != Ignored {
		t.Errorf("the directory out is %v", got)
	}
	if got := m.Class("web/node_modules", true); got != Excluded {
		t.Errorf("the directory web/node_modules is %v", got)
	}
}

// TestFollowsChanges: rules and index are read again after they changed.
func TestFollowsChanges(t *testing.T) {
	root := tree(t, map[string]string{"a.tmp": "", "b.tmp": ""})
	git(t, root, "", "init", "-q")
	now := time.Unix(1000, 0)
	m := open(t, root, Options{Now: func() time.Time { return now }})
	if m.Class("a.tmp", false) != Tracked {
		t.Error("a.tmp is not tracked without any rule")
	}
	put(t, root, ".gitignore", "*.tmp\n")
	if !IsRuleFile(".gitignore") || !IsRuleFile("x/y/.gitignore") || IsRuleFile("a.tmp") {
		t.Error("IsRuleFile is wrong")
	}
	m.Reload(".gitignore")
	if m.Class("a.tmp", false) != Ignored {
		t.Error("a.tmp is not ignored after the rule came")
	}
	git(t, root, "", "add", "-f", "a.tmp")
	now = now.Add(2 * time.Second)
	if m.Class("a.tmp", false) != Tracked || m.Class("b.tmp", false) != Ignored {
		t.Error("the changed index was not seen")
	}
}

// TestRulesBeginToExclude: a change of the rules returns the tracked directories that it excludes. A
// directory that was ignored or excluded before is not returned, because its content is not in the
// history.
func TestRulesBeginToExclude(t *testing.T) {
	root := tree(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "old\n", "env/pyvenv.cfg": "", "__pycache__/in/__pycache__/a": "",
		"src/__pycache__/a": "", "src-1/lib/a": "", "old/__pycache__/a": "", "src/env/a": "",
	})
	m := open(t, root, Options{})
	for _, c := range []struct {
		file, text string
		want       []string
	}{
		{".gitignore", "old\n__pycache__\n", []string{"__pycache__", "src/__pycache__"}},
		{".gitignore", "old\n__pycache__\n", nil},
		{"src/.cachebroignore", "env\n", []string{"src/env"}},
		{".git/info/exclude", "env\n", []string{"env"}},
		{".gitignore", "", nil},
		{".gitignore", "src\n__pycache__\n", []string{"__pycache__", "old/__pycache__", "src/__pycache__"}},
	} {
		m.Class(c.file, false) // caches the rules from before the change
		put(t, root, c.file, c.text)
		if got, _ := m.Reload(c.file); !slices.Equal(got, c.want) {
			t.Errorf("%s with %q excludes %q, want %q", c.file, c.text, got, c.want)
		}
	}
}

// A new file with rules is reported when it is made, and again when it is closed. Before the second
// report, the capture asks for the class of the file. The matcher used to read the new rules at
// this point and to take them for the old ones, so Reload returned no directory.
func TestNewRulesBeginToExclude(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{".gitignore", "__pycache__\n", "src/__pycache__"},
		{"src/.gitignore", "__pycache__\n", "src/__pycache__"},
		{"src/.cachebroignore", "env\n", "src/env"},
		{".git/info/exclude", "__pycache__\n", "src/__pycache__"},
	} {
		m := open(t, tree(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", "src/__pycache__/a": "", "src/env/a": ""}), Options{})
		root := m.source.root.Name()
		for _, text := range []string{"", c.text} {
			put(t, root, c.file, text)
			m.Class(c.file, false)
			got, _ := m.Reload(c.file)
			if text == c.text && !slices.Equal(got, []string{c.want}) {
				t.Errorf("%s with %q excludes %q, want %q", c.file, text, got, c.want)
			}
		}
	}
}

// An empty .git, which sandboxes make around each command, changes nothing. A repository begins and
// ends with its HEAD, and other branches are not another repository.
func TestRepositoryBeginsWithItsHead(t *testing.T) {
	for _, top := range []string{"", ".sub/"} {
		root := tree(t, map[string]string{top + "src/a.o": "", top + ".gitignore": "*.log\n", top + "node_modules/a": "", top + "package.json": "{}"})
		m := open(t, root, Options{})
		git, head := top+".git", top+".git/HEAD"
		for i, c := range []struct {
			file       string
			change     func()
			reveals    bool
			repository bool
		}{
			{git, func() { os.Mkdir(filepath.Join(root, git), 0o755) }, false, false},
			{git, func() { os.Remove(filepath.Join(root, git)) }, false, false},
			{git, func() { os.Mkdir(filepath.Join(root, git), 0o755) }, false, false},
			{top + ".git/info/exclude", func() { put(t, root, top+".git/info/exclude", "*.o\n") }, false, false},
			{head, func() { put(t, root, head, "ref: refs/heads/main\n") }, true, true},
			{head, func() { put(t, root, head, "ref: refs/heads/other\n") }, false, true},
			{head, func() { os.Remove(filepath.Join(root, head)) }, true, false},
			{git, func() { os.RemoveAll(filepath.Join(root, git)) }, false, false},
		} {
			m.Class(top+"src/a.o", false) // caches the rules from before the change
			c.change()
			if !IsRuleFile(c.file) {
				t.Errorf("%s: not a file with rules", c.file)
			}
			if _, got := m.Reload(c.file); got != c.reveals {
				t.Errorf("step %d, %s: may reveal %v, want %v", i, c.file, got, c.reveals)
			}
			if got := m.Class(top+"src/a.o", false) == Ignored; got != c.repository {
				t.Errorf("step %d, %s: the rules of a repository apply: %v, want %v", i, c.file, got, c.repository)
			}
			if got := m.Class(top+"node_modules", true) == Tracked; got != c.repository {
				t.Errorf("step %d, %s: node_modules is tracked: %v, want %v", i, c.file, got, c.repository)
			}
		}
	}
}

// Reload reports whether new rules may make ignored files tracked.
func TestRulesThatMayReveal(t *testing.T) {
	m := open(t, tree(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", "src/a": ""}), Options{})
	root := m.source.root.Name()
	for _, c := range []struct {
		file, text string
		want       bool
	}{
		{"src/.gitignore", "a\n", false},
		{"src/.gitignore", "a\n# and nothing else\n", false},
		{"src/.gitignore", "b\n", true},
		{".gitignore", "!src/a\n", true},
		{".cachebroignore", "x\n", false},
		{".cachebroignore", "", true},
		{".git/info/exclude", "x\n", true},
		{"src/package.json", "{}", false},
	} {
		m.Class(c.file, false) // caches the rules from before the change
		put(t, root, c.file, c.text)
		if _, got := m.Reload(c.file); got != c.want {
			t.Errorf("%s with %q: %v, want %v", c.file, c.text, got, c.want)
		}
	}
}

// The rename of a directory makes a file in it tracked if the rule that ignored the file depends on
// the directory's path.
func TestMoveMayReveal(t *testing.T) {
	m := open(t, tree(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "*.log\n/src/gen\nlib/**/tmp\n!/keep/*.log\n", ".git/info/exclude": "/old/x\n",
		"src/a": "", "lib/a": "", "old/a": "", "sub/in/a": "", "sub/.gitignore": "*.o\n", "mine/in/a": "", "mine/.cachebroignore": "big\n", "repo/.git/HEAD": "ref: refs/heads/main\n", "repo/in/a": "",
	}), Options{})
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"src", "new", true}, {"src/deep", "src/other", false}, {"lib", "new", true}, {"lib/one", "lib/two", true}, {"old", "new", true}, {"other", "old", false},
		{"other", "keep", true}, {"other", "src", false}, {"sub/in", "sub/out", false}, {"sub/in", "in", true}, {"in", "sub/in", false}, {"mine/in", "in", true}, {"repo/in", "in", true},
	} {
		if got := m.MoveMayReveal(c.from, c.to); got != c.want {
			t.Errorf("%s renamed to %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestWithoutRepository(t *testing.T) {
	root := tree(t, map[string]string{"package.json": "{}", "node_modules/x.js": "", ".gitignore": "*.o\n", "a.o": "", "target/x": ""})
	m := open(t, root, Options{})
	for path, want := range map[string]Class{"node_modules/x.js": Excluded, "a.o": Ignored, "target/x": Tracked, "package.json": Tracked} {
		if got := m.Class(path, false); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if _, mayReveal := m.Reload("package.json"); mayReveal {
		t.Error("a change of package.json alone is said to make node_modules tracked")
	}
	if err := os.Remove(filepath.Join(root, "package.json")); err != nil {
		t.Fatal(err)
	}
	if _, mayReveal := m.Reload("package.json"); !mayReveal || m.Class("node_modules/x.js", false) != Tracked {
		t.Errorf("without package.json, node_modules/x.js is %v, and Reload reports %v", m.Class("node_modules/x.js", false), mayReveal)
	}
}

// TestWorktree: in a linked worktree, .git is a file, and the exclude file is that of the main work
// tree.
func TestWorktree(t *testing.T) {
	root := tree(t, map[string]string{"main/a.x": "1"})
	main := filepath.Join(root, "main")
	git(t, main, "", "init", "-q")
	git(t, main, "", "add", "a.x")
	git(t, main, "", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x")
	put(t, main, ".git/info/exclude", "*.x\n*.y\n")
	git(t, main, "", "worktree", "add", "-q", "../tree")
	m := open(t, filepath.Join(root, "tree"), Options{})
	for path, want := range map[string]Class{"a.x": Tracked, "b.x": Ignored, "c.y": Ignored, ".git": Excluded, "d": Tracked} {
		if got := m.Class(path, false); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// TestIndexVersions reads what git writes in each version of its index.
func TestIndexVersions(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		for _, format := range []string{"sha1", "sha256"} {
			files := map[string]string{"intent": "x"}
			var want []string
			for i := range 200 {
				name := fmt.Sprintf("dir%d/sub/file-%s%d.txt", i%7, strings.Repeat("x", i%19), i)
				files[name] = "x"
				want = append(want, name)
			}
			root := tree(t, files)
			git(t, root, "", "init", "-q", "--object-format="+format)
			git(t, root, "", "add", ".")
			git(t, root, "", "rm", "-q", "--cached", "intent")
			if version == "3" {
				git(t, root, "", "add", "-N", "intent") // sets an extended flag, for which git needs version 3
				want = append(want, "intent")
			} else {
				git(t, root, "", "update-index", "--index-version", version)
			}
			raw, err := os.ReadFile(filepath.Join(root, ".git/index"))
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(raw[7]) != version {
				t.Fatalf("git wrote version %d, want %s", raw[7], version)
			}
			got, err := readIndex(raw)
			if err != nil {
				t.Errorf("version %s %s: %v", version, format, err)
				continue
			}
			var names []string
			for i := range got.begins {
				names = append(names, got.name(i))
			}
			sort.Strings(names)
			sort.Strings(want)
			if strings.Join(names, "\n") != strings.Join(want, "\n") || !got.has(want[0]) || got.has("dir3/sub") || got.has("zzz") {
				t.Errorf("version %s %s: %d names, want %d", version, format, len(names), len(want))
			}
		}
	}
}

// TestEqualsGit compares the verdicts with git check-ignore on random trees and patterns.
func TestEqualsGit(t *testing.T) {
	seed := int64(3)
	if s, err := strconv.ParseInt(os.Getenv("CACHEBRO_SEED"), 10, 64); err == nil {
		seed = s
	}
	rng := rand.New(rand.NewSource(seed))
	atoms := []string{"a", "b", "ab", "foo", "*", "?", "**", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "*.c", "b*", `\*`, `\!x`, "a b", "{a,b}", "[]a]", "[a", `a\`, "***", "x**y", "#x", `\#x`, ".hid", "a ", `b\ `}
	names := []string{"a", "b", "ab", "foo", "a.c", "b.c", "c", "*", "!x", "a b", "{a,b}", "]", "xzy", "#x", ".hid", "[a", "b ", "é"}
	for round := range 60 {
		files := map[string]string{}
		var dirs = []string{""}
		for range 14 {
			d := dirs[rng.Intn(len(dirs))]
			n := d + names[rng.Intn(len(names))]
			if _, taken := files[n]; taken {
				continue
			}
			if rng.Intn(3) == 0 && strings.Count(n, "/") < 3 {
				if _, taken := files[n+"/"]; !taken {
					files[n+"/"] = ""
					dirs = append(dirs, n+"/")
				}
			} else if _, taken := files[n+"/"]; !taken {
				files[n] = ""
			}
		}
		for range 3 {
			var lines []string
			for range 1 + rng.Intn(5) {
				line := ""
				for k := range 1 + rng.Intn(3) {
					if k > 0 {
						line += "/"
					}
					line += atoms[rng.Intn(len(atoms))]
				}
				line = []string{"", "", "/", "!", "!/"}[rng.Intn(5)] + line + []string{"", "", "/", " ", "\r"}[rng.Intn(5)]
				lines = append(lines, line)
			}
			files[dirs[rng.Intn(len(dirs))]+".gitignore"] = strings.Join(lines, "\n") + "\n"
		}
		root := tree(t, files)
		git(t, root, "", "init", "-q")
		os.WriteFile(filepath.Join(root, ".git/info/exclude"), []byte(atoms[rng.Intn(8)]+"\n"), 0o644)
		m := open(t, root, Options{})
		var asked []string
		for n := range files {
			asked = append(asked, strings.TrimSuffix(n, "/"))
		}
		sort.Strings(asked)
		out := git(t, root, strings.Join(asked, "\x00")+"\x00", "check-ignore", "-z", "--stdin", "--no-index")
		ignored := map[string]bool{}
		for _, n := range strings.Split(out, "\x00") {
			ignored[n] = true
		}
		for _, n := range asked {
			_, isDir := files[n+"/"]
			if got := m.Class(n, isDir) != Tracked; got != ignored[n] {
				t.Errorf("round %d: %q (directory %v): ignored %v, git says %v", round, n, isDir, got, ignored[n])
				for f, text := range files {
					if strings.HasSuffix(f, ".gitignore") {
						t.Logf("%s: %q", f, text)
					}
				}
				ex, _ := os.ReadFile(filepath.Join(root, ".git/info/exclude"))
				t.Logf("exclude: %q", ex)
				return
			}
		}
	}
}

func TestSecret(t *testing.T) {
	for path, want := range map[string]bool{".env": true, "a/.env.local": true, "id_rsa": true, "id_rsa.pub": false, "x.pem": true, "main.go": false, "environment.go": false, ".aws/credentials": true, "prod.env": true} {
		if Secret(path) != want {
			t.Errorf("Secret(%q) is %v", path, !want)
		}
	}
}

// FuzzWildmatch: no pattern may crash or hang the matcher.
func FuzzWildmatch(f *testing.F) {
	for _, p := range []string{"**/a", "a[", `\`, "[[:alpha:]", "[]-a]", "*a*b*c"} {
		f.Add(p, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, p, s string) {
		if len(p) > 30 || len(s) > 60 {
			return
		}
		ps := parse([]byte(p))
		for i := range ps {
			ps[i].matches(s, filepath.Base(s), false)
		}
		if parts, ok := compile("**"); !ok || !match(parts, s) {
			t.Errorf("** does not match %q", s)
		}
	})
}

func BenchmarkClass(b *testing.B) {
	dir, err := os.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	m, err := New(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.Class("some/deep/directory/file.go", false)
	}
}
