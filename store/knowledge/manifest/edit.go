package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Set returns text with the value at keys (nodes, auth, summary) set to value, a string or a
// []string. It adds missing mappings after the existing ones. Every byte outside the value is
// unchanged. If text already has this value, Set returns text.
func Set(text []byte, value any, keys ...string) ([]byte, error) {
	if err := valid(value, keys); err != nil {
		return nil, err
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	want := with(root, value, keys)
	if root != nil && equal(root, want) {
		return text, nil
	}
	e := &edit{text: text, lines: starts(text), nl: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		e.nl = "\r\n"
	}
	out, err := e.set(root, value, keys)
	if err != nil {
		return nil, refused(keys, err)
	}
	got, err := parse(out)
	if err == nil && (got == nil || !equal(got, want)) {
		err = fmt.Errorf("the edit would change other parts of the file")
	}
	if err != nil {
		return nil, refused(keys, err)
	}
	return out, nil
}

func refused(keys []string, err error) error {
	return fmt.Errorf("%s: %s cannot be set without changing the text around it (%w); edit the file itself", Name, strings.Join(keys, "."), err)
}

func valid(value any, keys []string) error {
	words := slices.Clone(keys)
	switch v := value.(type) {
	case string:
		words = append(words, v)
	case []string:
		words = append(words, v...)
	default:
		return fmt.Errorf("%s: a value must be a text or a list of texts, not %T", Name, value)
	}
	for _, w := range words {
		if !utf8.ValidString(w) {
			return fmt.Errorf("%s: %q is not UTF-8", Name, w)
		}
	}
	if len(keys) == 0 || slices.Contains(keys, "") {
		return fmt.Errorf("%s: an empty key", Name)
	}
	return nil
}

// edit is one splice of a text.
type edit struct {
	text  []byte
	lines []int // offsets at which lines begin
	nl    string
}

func (e *edit) set(root *yaml.Node, value any, keys []string) ([]byte, error) {
	if root == nil {
		return e.append(len(e.text), 0, value, keys), nil
	}
	n := root
	for i, key := range keys {
		if n.Kind != yaml.MappingNode || n.Anchor != "" {
			return nil, fmt.Errorf("line %d is not a plain mapping", n.Line)
		}
		j := find(n, key)
		if j < 0 {
			return e.add(n, value, keys[i:])
		}
		k, v := n.Content[j], n.Content[j+1]
		if v.Kind == yaml.AliasNode || v.Anchor != "" || v.Style&yaml.TaggedStyle != 0 {
			return nil, fmt.Errorf("line %d has an alias, an anchor or a tag", v.Line)
		}
		flow := n.Style&yaml.FlowStyle != 0
		switch {
		case i == len(keys)-1:
			return e.replace(k, v, value, flow)
		case null(v):
			if flow || v.Value != "" {
				return nil, fmt.Errorf("line %d holds a value that cannot be extended", v.Line)
			}
			return e.fill(n, k, value, keys[i+1:])
		}
		n = v
	}
	return nil, fmt.Errorf("no such key")
}

// replace replaces the node v by value.
func (e *edit) replace(k, v *yaml.Node, value any, flow bool) ([]byte, error) {
	end, err := e.end(v)
	if err != nil {
		return nil, err
	}
	from := e.offset(v)
	switch {
	case null(v) && v.Value == "":
		// The value is empty, so insert right after the colon.
		from, err = e.colon(k)
		if err != nil {
			return nil, err
		}
		return e.splice(from, from, " "+inline(value, flow)), nil
	case v.Style&yaml.FlowStyle == 0 && (v.Kind == yaml.SequenceNode || v.Kind == yaml.MappingNode):
		list, ok := value.([]string)
		if v.Kind == yaml.SequenceNode && ok && len(list) > 0 {
			return e.items(v, list)
		}
		colon, err := e.colon(k)
		if err != nil {
			return nil, err
		}
		line := e.lineStart(from)
		head := e.text[:line]
		out := append([]byte{}, head[:colon]...)
		out = append(out, " "+inline(value, flow)...)
		out = append(out, head[colon:]...)
		return append(out, e.text[e.nextLine(end):]...), nil
	}
	return e.splice(from, end, inline(value, flow)), nil
}

// items makes a block list contain list. Lines of items that are in both stay unchanged, so their
// comments are preserved.
func (e *edit) items(v *yaml.Node, list []string) ([]byte, error) {
	var old []string
	for _, c := range v.Content {
		if c.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d is not a list of words", c.Line)
		}
		old = append(old, c.Value)
	}
	// Unchanged items must be in the same order. Otherwise every item is written again.
	keep := make([]bool, len(old))
	j := 0
	for i := range old {
		if at := slices.Index(list[j:], old[i]); at == 0 {
			keep[i], j = true, j+1
		}
	}
	indent := strings.Repeat(" ", v.Column-1)
	var out []byte
	at := e.lineStart(e.offset(v.Content[0]))
	out = append(out, e.text[:at]...)
	last := at
	for i, c := range v.Content {
		end, err := e.end(c)
		if err != nil {
			return nil, err
		}
		from, to := e.lineStart(e.offset(c)), e.nextLine(end)
		if from < last {
			return nil, fmt.Errorf("line %d holds more than one item", c.Line)
		}
		out = append(out, e.text[last:from]...)
		if keep[i] {
			out = append(out, e.text[from:to]...)
			if to == len(e.text) && !bytes.HasSuffix(out, []byte("\n")) {
				out = append(out, e.nl...)
			}
		}
		last = to
	}
	for _, w := range list[j:] {
		out = append(out, indent+"- "+scalar(w, false)+e.nl...)
	}
	return append(out, e.text[last:]...), nil
}

// add inserts keys and value after the last pair of a mapping.
func (e *edit) add(n *yaml.Node, value any, keys []string) ([]byte, error) {
	if n.Style&yaml.FlowStyle != 0 {
		pair := flowPair(value, keys)
		if len(n.Content) == 0 {
			return e.splice(e.offset(n)+1, e.offset(n)+1, pair), nil
		}
		end, err := e.end(n.Content[len(n.Content)-1])
		if err != nil {
			return nil, err
		}
		return e.splice(end, end, ", "+pair), nil
	}
	end, err := e.end(n)
	if err != nil {
		return nil, err
	}
	return e.append(e.nextLine(end), n.Column-1, value, keys), nil
}

// fill inserts keys and value under a key without a value.
func (e *edit) fill(n, k *yaml.Node, value any, keys []string) ([]byte, error) {
	colon, err := e.colon(k)
	if err != nil {
		return nil, err
	}
	return e.append(e.nextLine(colon), n.Column-1+e.step(n), value, keys), nil
}

// append inserts keys and value as separate lines at the beginning of a line.
func (e *edit) append(at, indent int, value any, keys []string) []byte {
	var b strings.Builder
	if at > 0 && e.text[at-1] != '\n' {
		b.WriteString(e.nl)
	}
	for i, k := range keys {
		b.WriteString(strings.Repeat(" ", indent+2*i) + scalar(k, false) + ":")
		if i == len(keys)-1 {
			b.WriteString(" " + inline(value, false))
		}
		b.WriteString(e.nl)
	}
	return e.splice(at, at, b.String())
}

func (e *edit) splice(from, to int, s string) []byte {
	out := make([]byte, 0, len(e.text)+len(s))
	out = append(out, e.text[:from]...)
	out = append(out, s...)
	return append(out, e.text[to:]...)
}

// step returns the width of the file's indentation.
func (e *edit) step(n *yaml.Node) int {
	for i := 1; i < len(n.Content); i += 2 {
		if v := n.Content[i]; v.Kind == yaml.MappingNode && v.Style&yaml.FlowStyle == 0 && v.Column > n.Column {
			return v.Column - n.Column
		}
	}
	return 2
}

func inline(value any, flow bool) string {
	list, ok := value.([]string)
	if !ok {
		return scalar(value.(string), flow)
	}
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = scalar(w, true)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func flowPair(value any, keys []string) string {
	if len(keys) == 1 {
		return scalar(keys[0], true) + ": " + inline(value, true)
	}
	return scalar(keys[0], true) + ": {" + flowPair(value, keys[1:]) + "}"
}

// scalar writes a word without quotes if YAML reads it back as the same text. Otherwise it uses
// double quotes, whose escapes are Go's.
func scalar(s string, flow bool) string {
	bad := func(r rune) bool {
		return !strconv.IsPrint(r) || strings.ContainsRune("#:", r) || flow && strings.ContainsRune(",[]{}", r)
	}
	if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, bad) || strings.ContainsRune("-?:,[]{}#&*!|>'\"%@`=.~", rune(s[0])) {
		return strconv.Quote(s)
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off": // older readers treat these as booleans
		return strconv.Quote(s)
	}
	var n yaml.Node
	if yaml.Unmarshal([]byte(s), &n) != nil || len(n.Content) != 1 || n.Content[0].Tag != "!!str" || n.Content[0].Value != s {
		return strconv.Quote(s)
	}
	return s
}
