package docsync

import (
	"fmt"
	"math/rand"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func isCode(p string) bool {
	return strings.HasSuffix(p, ".go") || strings.HasSuffix(p, ".py") || strings.HasSuffix(p, ".yml")
}

func TestNamed(t *testing.T) {
	for _, tc := range []struct{ doc, text, want string }{
		{"docs/a.md", "See `src/a.go`, [b](../src/b.go#L3) and src/c.go:12.\n", "inferred src/a.go, inferred docs/src/a.go, inferred src/b.go, inferred src/c.go, inferred docs/src/c.go"},
		{"README.md", "Run a.py (not a.txt, https://x.org/y.go, /etc/x.yml, ~/z.py).\n```sh\nrun src/never.go\n```\n", "inferred a.py"},
		{"a.md", "<!-- cachebro: documents src/a.go, \"src/b c.go\" ./lib/ -->\nsee x.go\n", "comment src/a.go, comment src/b c.go, comment lib/"},
		{"d/a.md", "<!--\ncachebro: documents\n  src/**/*.go\n  ../x.go\n-->\n", "comment src/**/*.go, comment x.go"},
		{"a.md", "<!-- cachebro: documents nothing -->\nx.go y.go\n", ""},
		{"a.md", "~~~\n<!-- cachebro: documents x.go -->\n~~~\n", ""},
		{"a.md", "````\n```\n<!-- cachebro: documents x.go -->\n````\ny.go\n", "inferred y.go"},
		{"a.md", "Write `<!-- cachebro: documents x.go -->` there.\n", ""},
		{"a.rst", "Title\n=====\n\n.. cachebro: documents src/a.go\n", "comment src/a.go"},
		{"a.adoc", "// cachebro: documents src/a.go src/b.go\n", "comment src/a.go, comment src/b.go"},
		{"a.md", "<!-- cachebro: documents /etc/passwd ../../up a.md b.go -->", "comment b.go"},
		{"a.md", "The words cachebro: documents x in prose mean nothing.", ""},
	} {
		var got []string
		for _, r := range refsIn("a.md", nil, isCode) {
			t.Errorf("nothing names %v", r)
		}
		for _, r := range refsIn(storePath(tc.doc), []byte(tc.text), isCode) {
			got = append(got, fmt.Sprint(r.How, " ", r.Spec))
		}
		if g := strings.Join(got, ", "); g != tc.want {
			t.Errorf("%s %q:\n got %s\nwant %s", tc.doc, tc.text, g, tc.want)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		spec, path string
		want       bool
	}{
		{"src/", "src/a.go", true}, {"src", "src/x/a.go", true}, {"src", "srcs/a.go", false}, {"./", "any", true},
		{"a.go", "a.go", true}, {"a.go", "b/a.go", false}, {"src/**/*.go", "src/a.go", true}, {"src/**/*.go", "src/x/y.go", true},
		{"src/*.go", "src/x/y.go", false}, {"*.go", "a.go", true}, {"[", "a", false},
	} {
		if got := covers(tc.spec, storePath(tc.path)); got != tc.want {
			t.Errorf("%s covers %s: %v", tc.spec, tc.path, got)
		}
		if r := string(root(tc.spec)); tc.want && r != "" && !strings.HasPrefix(tc.path, r) {
			t.Errorf("the root of %s is %s", tc.spec, r)
		}
	}
}

// TestPathWords compares pathWords with a slow regular expression that finds the same words.
func TestPathWords(t *testing.T) {
	slow := regexp.MustCompile(`[A-Za-z0-9_@.+~/-]*[A-Za-z0-9_]\.[A-Za-z0-9_]{1,12}\b`)
	pieces := []string{".", ".", "a", "Z9_", "/", " ", "-", "abcdefghijkl", "abcdefghijklm", "é", "\xff", ":", "\n", "~", "@", "+", "(", ".go"}
	rng := rand.New(rand.NewSource(1))
	for range 20_000 {
		var b strings.Builder
		for range rng.Intn(12) {
			b.WriteString(pieces[rng.Intn(len(pieces))])
		}
		text := b.String()
		var got [][]int
		for from, to := range pathWords(text) {
			got = append(got, []int{from, to})
		}
		if want := slow.FindAllStringIndex(text, -1); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	}
}
