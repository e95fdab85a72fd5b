package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Name is the path of the file relative to the project.
const Name = "cachebro.yml"

// maxSize bounds the file, which is written by hand.
const maxSize = 1 << 20

// Manifest is the content of a cachebro.yml. Invalid entries are left out and reported in
// Problems.
type Manifest struct {
	Nodes    []Node // in the order of the file
	Docs     []Pair
	Problems []Problem
}

// Node is a named group of files, or information about one path.
type Node struct {
	Name    string
	Kind    string
	Summary string
	Source  []string // paths and patterns; if empty, the name is the path
	Uses    []string // names of nodes that this one depends on
}

// Pair is a document and the code that it describes.
type Pair struct {
	Doc  string   // a path
	Code []string // paths and patterns, at least one
}

// Problem is an entry that was left out, or an unknown key.
type Problem struct {
	Line int // 1-based
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", Name, p.Line, p.Text) }

// Node returns the node of this name.
func (m *Manifest) Node(name string) (Node, bool) {
	for _, n := range m.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Parse parses text. An error means invalid YAML. Empty text and text with only comments give an
// empty Manifest.
func Parse(text []byte) (*Manifest, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if root == nil {
		return m, nil
	}
	m.each(root, "the file", func(key string, k, v *yaml.Node) {
		switch key {
		case "nodes":
			m.nodes(v)
		case "docs":
			m.docs(v)
		default:
			m.problem(k, "unknown key %q; known are nodes and docs", key)
		}
	})
	return m, nil
}

// parse returns the document's top node, or nil for a text without content.
func parse(text []byte) (*yaml.Node, error) {
	switch {
	case len(text) > maxSize:
		return nil, fmt.Errorf("%s: larger than %d bytes", Name, maxSize)
	case !utf8.Valid(text):
		return nil, fmt.Errorf("%s: not UTF-8", Name)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s: %s", Name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document", Name)
	}
	if len(doc.Content) == 0 || null(doc.Content[0]) {
		return nil, nil
	}
	if err := duplicates(doc.Content[0]); err != nil {
		return nil, err
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: line %d: want a mapping with the keys nodes and docs", Name, doc.Content[0].Line)
	}
	return doc.Content[0], nil
}

// duplicates returns an error for a key that occurs twice in one mapping, because it is unclear
// which one counts.
func duplicates(n *yaml.Node) error {
	seen := map[string]int{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if at, ok := seen[c.Value]; ok && c.Kind == yaml.ScalarNode {
				return fmt.Errorf("%s: line %d: key %q is already at line %d", Name, c.Line, c.Value, at)
			}
			seen[c.Value] = c.Line
		}
		if err := duplicates(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manifest) problem(n *yaml.Node, format string, args ...any) {
	m.Problems = append(m.Problems, Problem{Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

// each calls f for the pairs of a mapping, following aliases.
func (m *Manifest) each(n *yaml.Node, what string, f func(key string, k, v *yaml.Node)) {
	n = resolve(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		m.problem(n, "%s must be a mapping", what)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := resolve(n.Content[i]); k.Kind != yaml.ScalarNode {
			m.problem(k, "the keys of %s must be words", what)
		} else {
			f(k.Value, k, resolve(n.Content[i+1]))
		}
	}
}

func (m *Manifest) nodes(n *yaml.Node) {
	m.each(n, "nodes", func(name string, k, v *yaml.Node) {
		node := Node{Name: name}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			m.problem(k, "a node needs a name of one line")
			return
		}
		m.each(v, fmt.Sprintf("node %q", name), func(key string, k, v *yaml.Node) {
			switch key {
			case "kind":
				node.Kind = m.word(v, key)
			case "summary":
				node.Summary = m.word(v, key)
			case "source":
				node.Source = m.paths(v, key)
			case "uses":
				node.Uses = m.words(v, key)
			default:
				m.problem(k, "unknown key %q; known are kind, summary, source and uses", key)
			}
		})
		m.Nodes = append(m.Nodes, node)
	})
}

func (m *Manifest) docs(n *yaml.Node) {
	if null(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		m.problem(n, "docs must be a list of pairs with the keys doc and code")
		return
	}
	for _, c := range n.Content {
		pair, before := Pair{}, len(m.Problems)
		m.each(c, "a pair of docs", func(key string, k, v *yaml.Node) {
			switch key {
			case "doc":
				if p := m.paths(v, key); len(p) == 1 {
					pair.Doc = p[0]
				} else {
					m.problem(v, "doc must be one path")
				}
			case "code":
				pair.Code = m.paths(v, key)
			default:
				m.problem(k, "unknown key %q; known are doc and code", key)
			}
		})
		if pair.Doc != "" && len(pair.Code) > 0 {
			m.Docs = append(m.Docs, pair)
		} else if len(m.Problems) == before {
			m.problem(c, "a pair of docs needs doc and code")
		}
	}
}

func (m *Manifest) word(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode {
		m.problem(n, "%s must be text", key)
		return ""
	}
	if null(n) {
		return ""
	}
	return n.Value
}

// words accepts one word or a list of words.
func (m *Manifest) words(n *yaml.Node, key string) (out []string) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	for _, c := range list {
		if w := m.word(resolve(c), key); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func (m *Manifest) paths(n *yaml.Node, key string) (out []string) {
	for _, w := range m.words(n, key) {
		p, err := CleanPath(w)
		if err != nil {
			m.problem(n, "%s: %v", key, err)
			continue
		}
		out = append(out, p)
	}
	return out
}

// CleanPath returns a path or pattern without "./" and double slashes. It keeps a final slash. A
// path that leads out of the project is an error. The project itself is "./".
func CleanPath(p string) (string, error) {
	switch {
	case p == "":
		return "", errors.New("an empty path")
	case strings.HasPrefix(p, "/"), strings.HasPrefix(p, "~"):
		return "", fmt.Errorf("%q is not relative to the project", p)
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("%q has control characters", p)
	}
	c := path.Clean(p)
	switch {
	case c == ".." || strings.HasPrefix(c, "../"):
		return "", fmt.Errorf("%q leads out of the project", p)
	case c == ".":
		return "./", nil
	case strings.HasSuffix(p, "/"):
		c += "/"
	}
	return c, nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
