package manifest

import (
	"reflect"
	"strings"
	"testing"
)

const sample = `# The map of this project.

nodes:
  # people log in here
  auth:   # sic
    kind: domain
    summary: >-
      Login,
      and logout.

    source: ["src/auth/", './src//session.go']   # both
    uses: billing


  "billing (new)": {summary: "a \"b\" ö", source: src/billing}
  plain:
    summary: some
      folded text   # c
    uses:
    - auth   # first
    # then
    - billing
  later:
docs:
- doc: docs/a.md
  code: [src/, "lib/**/*.go"]
# the end
`

func TestParse(t *testing.T) {
	m, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := &Manifest{
		Nodes: []Node{
			{Name: "auth", Kind: "domain", Summary: "Login, and logout.", Source: []string{"src/auth/", "src/session.go"}, Uses: []string{"billing"}},
			{Name: "billing (new)", Summary: `a "b" ö`, Source: []string{"src/billing"}},
			{Name: "plain", Summary: "some folded text", Uses: []string{"auth", "billing"}},
			{Name: "later"},
		},
		Docs: []Pair{{Doc: "docs/a.md", Code: []string{"src/", "lib/**/*.go"}}},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	if n, ok := m.Node("plain"); !ok || n.Summary != "some folded text" {
		t.Errorf("Node: %+v %v", n, ok)
	}
}

// One bad entry must not disable all the others.
func TestProblems(t *testing.T) {
	m, err := Parse([]byte("nodes:\n  a: {souce: x}\n  b: {source: /etc/passwd}\n  c: {source: [../x, y]}\n  d: 3\ndocs:\n  - doc: a.md\n  - {doc: b.md, code: [z]}\n  - {doc: [a, b], code: c}\nother: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Problems {
		got = append(got, p.String())
	}
	want := []string{
		`cachebro.yml:2: unknown key "souce"; known are kind, summary, source and uses`,
		`cachebro.yml:3: source: "/etc/passwd" is not relative to the project`,
		`cachebro.yml:4: source: "../x" leads out of the project`,
		`cachebro.yml:5: node "d" must be a mapping`,
		`cachebro.yml:7: a pair of docs needs doc and code`,
		`cachebro.yml:9: doc must be one path`,
		`cachebro.yml:10: unknown key "other"; known are nodes and docs`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(m.Nodes) != 4 || len(m.Docs) != 1 || m.Docs[0].Doc != "b.md" || m.Nodes[2].Source[0] != "y" {
		t.Errorf("the good entries are not all there: %+v", m)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"nodes: [", "cachebro.yml: line 1: "},
		{"nodes:\n  a: 1\n  a: 2\n", `cachebro.yml: line 3: key "a" is already at line 2`},
		{"- a\n", "cachebro.yml: line 1: want a mapping"},
		{"a: 1\n---\nb: 2\n", "cachebro.yml: more than one document"},
		{"a: \xff\n", "cachebro.yml: not UTF-8"},
		{strings.Repeat("#", maxSize+1), "cachebro.yml: larger than"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %s", c.text, err, c.want)
		}
	}
	for _, empty := range []string{"", "\n", "# only this\n", "---\n", "nodes:\n", "nodes: {}\ndocs: []\n"} {
		if m, err := Parse([]byte(empty)); err != nil || len(m.Nodes)+len(m.Docs)+len(m.Problems) != 0 {
			t.Errorf("%q: %+v %v", empty, m, err)
		}
	}
}
