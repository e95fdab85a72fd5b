package manifest

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// starts returns the offsets at which lines begin.
func starts(text []byte) []int {
	out := []int{0}
	for i, c := range text {
		if c == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}

// offset returns a node's offset. Columns count runes, without a byte order mark.
func (e *edit) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(e.lines) {
		return len(e.text)
	}
	at := e.lines[n.Line-1]
	if n.Line == 1 {
		at += len(e.text) - len(bytes.TrimPrefix(e.text, []byte("\ufeff")))
	}
	for range n.Column - 1 {
		if at >= len(e.text) {
			return len(e.text)
		}
		_, size := utf8.DecodeRune(e.text[at:])
		at += size
	}
	return at
}

func (e *edit) lineStart(at int) int { return bytes.LastIndexByte(e.text[:at], '\n') + 1 }

// nextLine returns the beginning of the line after at, or the end of the text.
func (e *edit) nextLine(at int) int {
	if at > 0 && at <= len(e.text) && e.text[at-1] == '\n' {
		return at
	}
	if i := bytes.IndexByte(e.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(e.text)
}

// colon returns the offset after the colon of a key.
func (e *edit) colon(k *yaml.Node) (int, error) {
	end, err := e.end(k)
	if err != nil {
		return 0, err
	}
	for ; end < len(e.text); end++ {
		switch e.text[end] {
		case ' ', '\t':
		case ':':
			return end + 1, nil
		default:
			return 0, fmt.Errorf("line %d: no colon after the key", k.Line)
		}
	}
	return 0, fmt.Errorf("line %d: no colon after the key", k.Line)
}

// end returns the offset after a node, which the parser does not report. If it is wrong, the edit
// gives a wrong tree and Set returns an error.
func (e *edit) end(n *yaml.Node) (int, error) {
	at := e.offset(n)
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return 0, fmt.Errorf("line %d has an anchor or a tag", n.Line)
	}
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		if len(n.Content) > 0 {
			last, err := e.end(n.Content[len(n.Content)-1])
			if err != nil || n.Style&yaml.FlowStyle == 0 {
				return last, err
			}
			at = last
		} else {
			at++ // an empty node is always in brackets
		}
		return e.bracket(at, n)
	case yaml.ScalarNode:
		return e.scalarEnd(at, n)
	case yaml.AliasNode:
		return at + 1 + len(n.Value), nil
	}
	return 0, fmt.Errorf("line %d: unexpected YAML", n.Line)
}

// bracket finds the closing bracket after the last element.
func (e *edit) bracket(at int, n *yaml.Node) (int, error) {
	for ; at < len(e.text); at++ {
		switch e.text[at] {
		case ' ', '\t', '\r', '\n', ',':
		case '#':
			at = e.nextLine(at) - 1
		case ']', '}':
			return at + 1, nil
		default:
			return 0, fmt.Errorf("line %d: no closing bracket", n.Line)
		}
	}
	return 0, fmt.Errorf("line %d: no closing bracket", n.Line)
}

func (e *edit) scalarEnd(at int, n *yaml.Node) (int, error) {
	t := e.text
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		for i := at + 1; i < len(t); i++ {
			if t[i] == '\\' {
				i++
			} else if t[i] == '"' {
				return i + 1, nil
			}
		}
	case n.Style&yaml.SingleQuotedStyle != 0:
		for i := at + 1; i < len(t); i++ {
			if t[i] == '\'' {
				if i+1 >= len(t) || t[i+1] != '\'' {
					return i + 1, nil
				}
				i++
			}
		}
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return e.blockEnd(at), nil
	default:
		// Plain text has no escapes. The source equals the value, except that any white space may
		// stand for a space or a line end.
		i := at
		for j := 0; j < len(n.Value); {
			if c := n.Value[j]; c != ' ' && c != '\n' {
				if i >= len(t) || t[i] != c {
					return 0, fmt.Errorf("line %d: unexpected text", n.Line)
				}
				i, j = i+1, j+1
				continue
			}
			for j < len(n.Value) && (n.Value[j] == ' ' || n.Value[j] == '\n') {
				j++
			}
			for i < len(t) && bytes.IndexByte([]byte(" \t\r\n"), t[i]) >= 0 {
				i++
			}
		}
		return i, nil
	}
	return 0, fmt.Errorf("line %d: no closing quote", n.Line)
}

// blockEnd returns the end of the last line of a block text (| or >) that begins at offset at. The
// lines are indented deeper than their key. Blank lines after the text do not belong to it.
func (e *edit) blockEnd(at int) int {
	line := e.lineStart(at)
	key := indentOf(e.text[line:])
	for e.text[line+key] == '-' { // in "- key: |", the key's indentation counts, not the dash's
		key++
		key += indentOf(e.text[line+key:])
	}
	end := at
	for i := at; i < len(e.text) && !bytes.ContainsRune([]byte("\r\n#"), rune(e.text[i])); i++ {
		end = i + 1
	}
	for i := e.nextLine(at); i < len(e.text); i = e.nextLine(i + 1) {
		l := bytes.TrimRight(e.text[i:e.nextLine(i+1)], "\r\n")
		if len(bytes.TrimSpace(l)) == 0 {
			continue
		}
		if indentOf(l) <= key {
			break
		}
		end = i + len(l)
	}
	return end
}

func indentOf(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
