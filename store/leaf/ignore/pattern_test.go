package ignore

import (
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHostilePatterns: a cloned repository brings its own rules. A pattern of sixteen "*a" used to
// make every lookup of a name of 120 letters hang, which left the calling shell in uninterruptible
// sleep (state D).
func TestHostilePatterns(t *testing.T) {
	long := strings.Repeat("a", 250)
	deep := strings.Repeat("a/", 1500) + "a"
	for _, p := range []string{
		strings.Repeat("*a", 16) + "*b",
		strings.Repeat("*a", 2000) + "b",
		strings.Repeat("**/", 1000) + "b",
		"x/" + strings.Repeat("**/a/", 300) + "b",
		strings.Repeat("**/*a*a", 200) + "b",
		strings.Repeat("*[ab]", 500) + "c",
		"*[" + strings.Repeat("[:", 20000) + "]b",
		"*[" + strings.Repeat("a-z", 20000) + "]b",
		strings.Repeat("?*", 1000) + "b",
		strings.Repeat("***", 1000) + "b",
		strings.Repeat("[", 60000),
		strings.Repeat("*", 1<<20) + "b",
	} {
		done := make(chan bool)
		go func() {
			for _, rule := range parse([]byte(p + "\n/" + p + "\n" + p + "/x\n")) {
				rule.matches(long, long, false)
				rule.matches(deep, "a", false)
			}
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Errorf("%.20q… of %d bytes takes longer than a minute", p, len(p))
		}
	}
}

// FuzzCheckIgnore compares one file of rules and one name with git check-ignore.
func FuzzCheckIgnore(f *testing.F) {
	for _, rules := range []string{
		"*a*b", "a**b/c", "foo**/bar", "foo**\\/bar", "**/a", "a/**", "a/**/b", "/**/", "*\\/a", "[]-a]", "[[:alpha:]-z]", "[a-c-e]", "!b\na", "a\x00b",
		"*.c\n!a.c", "a[/]b", "[!a/]b", "x/foo**", "***/a", "a/***", "\\", "*\\", "a ", "a\\ ", "**", "**/", "/", "//", "a//b", "[^", "[[:x:]]", "[\\]]", "*.\\c",
	} {
		f.Add(rules, "a/b/c")
		f.Add(rules, "foo/x/bar")
	}
	f.Add("foo**/bar", "foobar")
	f.Add("[b-a]", "b/c")
	root := f.TempDir()
	git(f, root, "", "init", "-q")
	f.Fuzz(func(t *testing.T, rules, name string) {
		if strings.HasPrefix(name, ":") { // git reads this as pathspec magic, not as a name
			return
		}
		if len(rules) > 100 || len(name) > 60 || !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || strings.Contains(strings.ToLower(name), ".git") {
			return
		}
		put(t, root, ".git/info/exclude", rules)
		m := open(t, root, Options{})
		want := strings.TrimSuffix(git(t, root, name+"\x00", "check-ignore", "-z", "--stdin", "--no-index"), "\x00") == name
		if got := m.Class(name, false) != Tracked; got != want {
			t.Errorf("rules %q: %q is ignored: %v, git says %v", rules, name, got, want)
		}
	})
}

// TestPatternsEqualGit does the fuzz target's comparison for many pairs at once: each name under
// the rules of one directory, thousands of pairs per git process.
func TestPatternsEqualGit(t *testing.T) {
	seed := int64(5)
	if s, err := strconv.ParseInt(os.Getenv("CACHEBRO_SEED"), 10, 64); err == nil {
		seed = s
	}
	rng := rand.New(rand.NewSource(seed))
	const alphabet = `aab*?[]!-^\/.:` + "**//"
	pick := func(n int) string {
		var b strings.Builder
		for range 1 + rng.Intn(n) {
			if rng.Intn(12) == 0 {
				b.WriteString([]string{"[[:alpha:]]", "[a-b]", "**/", "/**", "[!a]", "[[:x:]]", "a**/", "**b", `\/`, "[]a]"}[rng.Intn(10)])
				continue
			}
			b.WriteByte(alphabet[rng.Intn(len(alphabet))])
		}
		return b.String()
	}
	root := t.TempDir()
	git(t, root, "", "init", "-q")
	var names []string
	for range 120 {
		var b strings.Builder
		for i := range 1 + rng.Intn(4) {
			if i > 0 {
				b.WriteByte('/')
			}
			for range 1 + rng.Intn(4) {
				b.WriteByte("aaabb.*?[]!-"[rng.Intn(12)])
			}
		}
		if name := b.String(); fs.ValidPath(name) && name != "." {
			names = append(names, name)
		}
	}
	const rounds = 150
	for round := range rounds {
		rules := pick(10)
		if rng.Intn(4) == 0 {
			rules += "\n!" + pick(6)
		}
		put(t, root, ".git/info/exclude", rules+"\n")
		m := open(t, root, Options{})
		out := git(t, root, strings.Join(names, "\x00")+"\x00", "check-ignore", "-z", "--stdin", "--no-index")
		ignored := map[string]bool{}
		for _, n := range strings.Split(out, "\x00") {
			ignored[n] = true
		}
		for _, n := range names {
			if got := m.Class(n, false) != Tracked; got != ignored[n] {
				t.Fatalf("round %d: rules %q: %q is ignored: %v, git says %v", round, rules, n, got, ignored[n])
			}
		}
	}
}

// BenchmarkPatterns matches the names of the Go source tree against common kinds of rules.
func BenchmarkPatterns(b *testing.B) {
	var names []string
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err == nil {
		err = fs.WalkDir(os.DirFS(filepath.Join(strings.TrimSpace(string(out)), "src")), ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, p)
			}
			return err
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	for name, rules := range map[string]string{
		"go":      "# binaries\n*.exe\n*.exe~\n*.dll\n*.so\n*.dylib\n*.test\n*.out\ngo.work\n.env\n/pkg/\n/bin/\nVERSION.cache\n",
		"endings": "*.o\n*.a\n*.so\n*.pyc\n*.class\n*.log\n*.tmp\n*.swp\n*~\n*.bak\n*.orig\n*.rej\n",
		"stars":   "[._]*.s[a-v][a-z]\n*.py[cod]\nnpm-debug.log*\n*.tar.*\nbuild-*/\n**/testdata/**/out\nfoo/**\n*$py.class\n/cmd/*/main_*.go\n.#*\n#*#\n[Dd]ebug/\n",
	} {
		b.Run(name, func(b *testing.B) {
			ps := parse([]byte(rules))
			for i := 0; b.Loop(); i++ {
				n := names[i%len(names)]
				last(ps, n, path.Base(n), false)
			}
		})
	}
}
