package clients

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlTable is a table [a.b] with command, args and env_vars. It is appended to a TOML file as
// text, so that all other bytes stay the same.
type tomlTable struct {
	Path    []string `toml:"-"` // components of the table's name
	Command string   `toml:"command"`
	Args    []string `toml:"args"`
	Vars    []string `toml:"env_vars"` // names of environment variables to pass on
}

func (t tomlTable) Add(before []byte) ([]byte, error) {
	tree, err := parseTOML(before)
	if err != nil {
		return nil, err
	}
	nl := "\n"
	if bytes.Contains(before, []byte("\r\n")) {
		nl = "\r\n"
	}
	text, err := t.text(nl)
	if err != nil {
		return nil, err
	}
	own, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	now, want := lookupTOML(tree, t.Path), lookupTOML(own, t.Path)
	if reflect.DeepEqual(now, want) {
		return before, nil
	}
	rest := before
	if now != nil {
		rest, err = t.cut(before)
		if err != nil {
			return nil, err
		}
	}
	out := bytes.Clone(rest)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, nl...)
	}
	if len(bytes.TrimSpace(out)) > 0 {
		out = append(out, nl...)
	}
	out = append(out, text...)
	// Check that the new text has our table, and everything else as before.
	after, err := parseTOML(out)
	if err != nil || !reflect.DeepEqual(lookupTOML(after, t.Path), want) {
		return nil, fmt.Errorf("%s is an inline table, to which [%s] cannot be added", t.Path[0], strings.Join(t.Path, "."))
	}
	without(after, t.Path)
	without(tree, t.Path)
	if !reflect.DeepEqual(after, tree) {
		return nil, errors.New("adding a table would change other settings")
	}
	return out, nil
}

func (t tomlTable) Remove(now, _ []byte) ([]byte, error) {
	tree, err := parseTOML(now)
	if err != nil {
		return nil, err
	}
	if lookupTOML(tree, t.Path) == nil {
		return now, nil
	}
	return t.cut(now)
}

func (t tomlTable) text(nl string) ([]byte, error) {
	b, err := toml.Marshal(t)
	b = append([]byte("["+strings.Join(t.Path, ".")+"]\n"), b...)
	return bytes.ReplaceAll(b, []byte("\n"), []byte(nl)), err
}

// cut removes our table with its sub-tables, up to the next header of another table. Comments just
// before that header stay. If our table is the last one, cut also removes the blank line before it.
func (t tomlTable) cut(b []byte) ([]byte, error) {
	spans, err := t.spans(b)
	if err != nil {
		return nil, err
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("%s is not a table of its own; remove it by hand", strings.Join(t.Path, "."))
	}
	out := bytes.Clone(b)
	for i := len(spans) - 1; i >= 0; i-- {
		from, to := spans[i][0], spans[i][1]
		head := out[:from]
		if to == len(out) {
			if trimmed := bytes.TrimSuffix(bytes.TrimSuffix(head, []byte("\n")), []byte("\r")); bytes.HasSuffix(trimmed, []byte("\n")) {
				head = trimmed
			}
		}
		out = append(bytes.Clone(head), out[to:]...)
	}
	return out, nil
}

// spans returns the byte ranges of our table and its sub-tables.
func (t tomlTable) spans(b []byte) ([][2]int, error) {
	offset := 0
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		offset = 3
	}
	p := unstable.Parser{KeepComments: false}
	p.Reset(b[offset:])
	var spans [][2]int
	open := -1
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		start, first, ours := 0, true, 0
		for it := e.Key(); it.Next(); {
			k := it.Node()
			if first {
				start = lineStart(b, offset+int(k.Raw.Offset))
				first = false
			}
			if ours >= 0 && ours < len(t.Path) {
				if string(k.Data) == t.Path[ours] {
					ours++
				} else {
					ours = -1
				}
			}
		}
		if open >= 0 {
			spans = append(spans, [2]int{open, beforeComments(b, open, start)})
			open = -1
		}
		if ours == len(t.Path) {
			open = start
		}
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("it is not valid TOML: %w", err)
	}
	if open >= 0 {
		spans = append(spans, [2]int{open, len(b)})
	}
	return spans, nil
}

func lineStart(b []byte, i int) int { return bytes.LastIndexByte(b[:i], '\n') + 1 }

// beforeComments moves the end of a table up over the comments just above the next header.
func beforeComments(b []byte, from, to int) int {
	for to > from {
		prev := lineStart(b, to-1)
		if prev <= from || !bytes.HasPrefix(bytes.TrimSpace(b[prev:to]), []byte("#")) {
			return to
		}
		to = prev
	}
	return to
}

func parseTOML(b []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := toml.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), &tree); err != nil {
		return nil, fmt.Errorf("it is not valid TOML: %w", err)
	}
	return tree, nil
}

func lookupTOML(tree map[string]any, path []string) any {
	var v any = tree
	for _, k := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v, ok = m[k]
		if !ok {
			return nil
		}
	}
	return v
}

// without removes the value at a path, and its parents that become empty.
func without(tree map[string]any, path []string) {
	m, ok := tree[path[0]].(map[string]any)
	switch {
	case len(path) == 1:
		delete(tree, path[0])
	case ok:
		without(m, path[1:])
		if len(m) == 0 {
			delete(tree, path[0])
		}
	}
}
