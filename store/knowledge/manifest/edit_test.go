package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// Each case states the text that may change; every other byte must stay the same.
func TestSetKeepsTheRest(t *testing.T) {
	for _, c := range []struct {
		keys     []string
		value    any
		old, new string // the replaced text in sample, and the replacement
	}{
		{[]string{"nodes", "auth", "kind"}, "feature", "kind: domain", "kind: feature"},
		{[]string{"nodes", "auth", "summary"}, "New.", "summary: >-\n      Login,\n      and logout.", "summary: New."},
		{[]string{"nodes", "auth", "summary"}, "a: b # c\n\"d\"", "summary: >-\n      Login,\n      and logout.", `summary: "a: b # c\n\"d\""`},
		{[]string{"nodes", "auth", "source"}, "src/", `["src/auth/", './src//session.go']`, "src/"},
		{[]string{"nodes", "auth", "source"}, []string{"a,b", "c"}, `["src/auth/", './src//session.go']`, `["a,b", c]`},
		{[]string{"nodes", "billing (new)", "summary"}, "x", `"a \"b\" ö"`, "x"},
		{[]string{"nodes", "billing (new)", "kind"}, "y, z", `source: src/billing}`, `source: src/billing, kind: "y, z"}`},
		{[]string{"nodes", "plain", "summary"}, "x", "some\n      folded text ", "x "},
		{[]string{"nodes", "plain", "kind"}, "x", "    - billing\n", "    - billing\n    kind: x\n"},
		{[]string{"nodes", "plain", "uses"}, []string{"billing", "more"}, "    - auth   # first\n", "    - auth   # first\n"},
		{[]string{"nodes", "plain", "uses"}, []string{"auth", "billing", "more"}, "    - billing\n", "    - billing\n    - more\n"},
		{[]string{"nodes", "plain", "uses"}, []string{"auth"}, "    - billing\n", ""},
		{[]string{"nodes", "plain", "uses"}, []string{}, "    uses:\n    - auth   # first\n    # then\n    - billing\n", "    uses: []\n"},
		{[]string{"nodes", "later", "summary"}, "x", "  later:\n", "  later:\n    summary: x\n"},
		{[]string{"nodes", "src/a.go", "summary"}, "yes", "  later:\n", "  later:\n  src/a.go:\n    summary: \"yes\"\n"},
	} {
		t.Run(strings.Join(c.keys, "."), func(t *testing.T) {
			want := strings.Replace(sample, c.old, c.new, 1)
			if c.old == c.new { // the first of two lines is removed, and the comment between them stays
				want = strings.Replace(sample, "    - auth   # first\n    # then\n    - billing\n", "    # then\n    - billing\n    - more\n", 1)
			}
			got, err := Set([]byte(sample), c.value, c.keys...)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			again, err := Set(got, c.value, c.keys...)
			if err != nil || string(again) != string(got) {
				t.Errorf("a second time: %v\n%s", err, again)
			}
		})
	}
}

func TestSetInOddFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "nodes:\n  a:\n    summary: x\n"},
		{"# c", "# c\nnodes:\n  a:\n    summary: x\n"},
		{"docs: []", "docs: []\nnodes:\n  a:\n    summary: x\n"},
		{"nodes:\r\n  b:\r\n    kind: k # c\r\n\r\n# e\r\n", "nodes:\r\n  b:\r\n    kind: k # c\r\n  a:\r\n    summary: x\r\n\r\n# e\r\n"},
		{"nodes: {}\n", "nodes: {a: {summary: x}}\n"},
		{"nodes:\n  a: {}\n", "nodes:\n  a: {summary: x}\n"},
		{"nodes:\n  a:\n    summary:   # none yet\n", "nodes:\n  a:\n    summary: x   # none yet\n"},
		{"{nodes: {a: {summary: old}, b: {}}}", "{nodes: {a: {summary: x}, b: {}}}"},
		{"nodes:\n    b:\n        kind: k\n    a:\n", "nodes:\n    b:\n        kind: k\n    a:\n        summary: x\n"},
		{"\ufeffnodes:\n  a:\n    summary: |\n      one\n\n      two\n\n  b:\n    kind: k\n", "\ufeffnodes:\n  a:\n    summary: x\n\n  b:\n    kind: k\n"},
		{"nodes:\n  a:\n    summary: ~\n", "nodes:\n  a:\n    summary: x\n"},
		{"nodes:\n  b: {}\n...\n", "nodes:\n  b: {}\n  a:\n    summary: x\n...\n"},
		{"nodes:\n  ä ö: {kind: ü}\n  a: {kind: 'it''s', summary: ö}", "nodes:\n  ä ö: {kind: ü}\n  a: {kind: 'it''s', summary: x}"},
	} {
		got, err := Set([]byte(c.text), "x", "nodes", "a", "summary")
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %v\ngot  %q\nwant %q", c.text, err, got, c.want)
		}
	}
}

// An edit that would change more than was requested is refused with the reason.
func TestSetRefuses(t *testing.T) {
	for _, text := range []string{
		"x: &x {summary: a}\nnodes:\n  a: *x\n",
		"nodes:\n  a: &x\n    summary: a\n  b: *x\n",
		"nodes:\n  a:\n    summary: !!binary aGk=\n",
		"nodes:\n  a: word\n",
		"nodes: [a]\n",
		"nodes: {a: {summary: a}\n",
		"a: 1\n---\nb: 2\n",
	} {
		if got, err := Set([]byte(text), "x", "nodes", "a", "summary"); err == nil {
			t.Errorf("%q became %q", text, got)
		} else if !strings.HasPrefix(err.Error(), Name+": ") {
			t.Errorf("%q: the error does not name the file: %v", text, err)
		}
	}
	for _, v := range []any{3, "\xff", []string{"\xff"}} {
		if _, err := Set(nil, v, "a"); err == nil {
			t.Errorf("%v was taken", v)
		}
	}
}

// Words that YAML would read as another type must be read back unchanged.
func TestEveryWordComesBack(t *testing.T) {
	for _, w := range []string{"", "yes", "null", "~", "1", "1e3", "0x1f", "2026-11-21", "a: b", "a #b", "#a", "- a", "-", "?", "'", `"`, "a\tb", "a\nb\n", " a ",
		"\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "\u200b", "😀", "a,b", "[a]", "{a}", "*a", "&a", "!a", "%a", "@a", "`a`", "=", "<<", ".inf", "---", "...", "on", strings.Repeat("long ", 100)} {
		for i, start := range []string{"", "nodes: {a: {}}\n", sample} {
			for _, value := range []any{w, []string{w, "x", w}} {
				out, err := Set([]byte(start), value, "nodes", "a", "source")
				if err != nil {
					t.Errorf("%q in %d: %v", w, i, err)
				}
				root, err := parse(out)
				if err != nil {
					t.Fatal(err)
				}
				a := root.Content[find(root, "nodes")+1]
				a = a.Content[find(a, "a")+1]
				v := a.Content[find(a, "source")+1]
				if s, ok := value.(string); ok && v.Value != s || !ok && (len(v.Content) != 3 || v.Content[2].Value != w) {
					t.Errorf("%q in %d came back as %q", w, i, fmt.Sprint(v.Value, v.Content))
				}
				// Use the word as the name of a node too.
				if w != "" {
					if _, err := Set([]byte(start), "x", "nodes", w, "summary"); err != nil {
						t.Errorf("node %q in %d: %v", w, i, err)
					}
				}
			}
		}
	}
}
