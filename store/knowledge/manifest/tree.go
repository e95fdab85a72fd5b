package manifest

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// find returns the index of key in a mapping's content, or -1.
func find(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// with returns the expected result of an edit: a tree like n, but with value under the nested keys.
func with(n *yaml.Node, value any, keys []string) *yaml.Node {
	if len(keys) == 0 {
		return leaf(value)
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if n != nil && n.Kind == yaml.MappingNode {
		out.Content = append(out.Content, n.Content...)
	}
	if i := find(out, keys[0]); i >= 0 {
		out.Content[i+1] = with(out.Content[i+1], value, keys[1:])
		return out
	}
	out.Content = append(out.Content, leaf(keys[0]), with(nil, value, keys[1:]))
	return out
}

func leaf(value any) *yaml.Node {
	list, ok := value.([]string)
	if !ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value.(string)}
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, w := range list {
		n.Content = append(n.Content, leaf(w))
	}
	return n
}

// equal compares the meaning of two trees. Order matters; style, comments and positions do not.
// Aliases are compared by name, because both trees have the same anchors at the same places.
func equal(a, b *yaml.Node) bool {
	if a.Kind != b.Kind {
		return false
	}
	if a.Kind == yaml.AliasNode {
		return a.Value == b.Value
	}
	if a.Kind == yaml.ScalarNode && (a.Value != b.Value || a.ShortTag() != b.ShortTag()) {
		return false
	}
	return a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, equal)
}
