package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonc is a JSON configuration file that may have comments and trailing commas. It is edited in
// place, so that all other bytes stay the same.
type jsonc struct {
	root   hujson.Value
	bom    bool
	nl     string // the line end of what is added
	indent string // the indentation of one level
}

var errNotObject = errors.New("it is not a JSON object")

// parseJSONC parses a file. An empty file is an empty object.
func parseJSONC(b []byte) (*jsonc, error) {
	d := &jsonc{nl: "\n"}
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		d.bom, b = true, b[3:]
	}
	if bytes.Contains(b, []byte("\r\n")) {
		d.nl = "\r\n"
	}
	if len(bytes.TrimSpace(b)) == 0 {
		b = []byte("{}" + d.nl)
	}
	v, err := hujson.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, errNotObject
	}
	if err := unique(o); err != nil {
		return nil, err
	}
	d.root = v
	d.indent = indentOf(o)
	return d, nil
}

// unique returns an error if a key occurs twice in an object, because clients differ in which one
// they use.
func unique(o *hujson.Object) error {
	seen := map[string]bool{}
	for _, m := range o.Members {
		k := memberKey(m)
		if seen[k] {
			return fmt.Errorf("the key %q appears twice", k)
		}
		seen[k] = true
	}
	return nil
}

// indentOf returns the white space before the first member, or two blanks.
func indentOf(o *hujson.Object) string {
	if len(o.Members) > 0 {
		before := string(o.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 && strings.Trim(before[i+1:], " \t") == "" && before[i+1:] != "" {
			return before[i+1:]
		}
	}
	return "  "
}

func (d *jsonc) Bytes() []byte {
	b := d.root.Pack()
	if d.bom {
		b = append([]byte("\xef\xbb\xbf"), b...)
	}
	return b
}

func memberKey(m hujson.ObjectMember) string {
	l, ok := m.Name.Value.(hujson.Literal)
	if !ok {
		return ""
	}
	return l.String()
}

func member(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if memberKey(o.Members[i]) == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// Object returns the object at a path of keys, or nil if there is none. A value on the path that is
// not an object is an error, because it must not be replaced.
func (d *jsonc) Object(path ...string) (*hujson.Object, error) {
	o, _ := d.root.Value.(*hujson.Object)
	for i, name := range path {
		v := member(o, name)
		if v == nil {
			return nil, nil
		}
		var ok bool
		o, ok = v.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", strings.Join(path[:i+1], "."))
		}
		if err := unique(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// ensure is like Object, but makes missing objects.
func (d *jsonc) ensure(path ...string) (*hujson.Object, error) {
	o, _ := d.root.Value.(*hujson.Object)
	for i, name := range path {
		next, err := d.Object(path[:i+1]...)
		if err != nil {
			return nil, err
		}
		if next == nil {
			next = &hujson.Object{}
			d.add(o, i, name, hujson.Value{Value: next})
		}
		o = next
	}
	return o, nil
}

// Get decodes the value at a path into v. ok is false if there is no such value.
func (d *jsonc) Get(v any, path ...string) (ok bool, err error) {
	o, err := d.Object(path[:len(path)-1]...)
	if o == nil || err != nil {
		return false, err
	}
	m := member(o, path[len(path)-1])
	if m == nil {
		return false, nil
	}
	if err := json.Unmarshal(plain(*m), v); err != nil {
		return true, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	return true, nil
}

// Set sets the value at a path. It replaces the old value or appends a member.
func (d *jsonc) Set(value any, path ...string) error {
	depth := len(path) - 1
	o, err := d.ensure(path[:depth]...)
	if err != nil {
		return err
	}
	v, err := d.value(value, depth+1)
	if err != nil {
		return err
	}
	if old := member(o, path[depth]); old != nil {
		v.BeforeExtra, v.AfterExtra = old.BeforeExtra, old.AfterExtra
		*old = v
		return nil
	}
	d.add(o, depth, path[depth], v)
	return nil
}

// SetDefault sets a member of the file unless it has one of that name.
func (d *jsonc) SetDefault(value any, name string) error {
	var other any
	ok, err := d.Get(&other, name)
	if ok || err != nil {
		return err
	}
	return d.Set(value, name)
}

// value formats a Go value with the indentation of that depth.
func (d *jsonc) value(v any, depth int) (hujson.Value, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(strings.Repeat(d.indent, depth), d.indent)
	if err := e.Encode(v); err != nil {
		return hujson.Value{}, err
	}
	text := bytes.ReplaceAll(bytes.TrimSpace(b.Bytes()), []byte("\n"), []byte(d.nl))
	return hujson.Parse(text)
}

// add appends a member to an object whose members have depth+1. A comment after the last member and
// a trailing comma keep their place.
func (d *jsonc) add(o *hujson.Object, depth int, name string, v hujson.Value) {
	before := trimSpaceEnd(o.AfterExtra)
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: v}
	m.Name.BeforeExtra = append(before, d.nl+strings.Repeat(d.indent, depth+1)...)
	m.Value.BeforeExtra = hujson.Extra(" ")
	if n := len(o.Members); n > 0 && o.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{}
		// A comment between the last value and its comma stays where it is.
	}
	o.Members = append(o.Members, m)
	o.AfterExtra = hujson.Extra(d.nl + strings.Repeat(d.indent, depth))
}

func trimSpaceEnd(e hujson.Extra) hujson.Extra {
	return append(hujson.Extra{}, bytes.TrimRight(e, " \t\r\n")...)
}

// Remove removes the value at a path, and its parents that become empty unless keep returns true
// for them.
func (d *jsonc) Remove(keep func(path []string) bool, path ...string) error {
	depth := len(path) - 1
	o, err := d.Object(path[:depth]...)
	if o == nil || err != nil {
		return err
	}
	for i := range o.Members {
		if memberKey(o.Members[i]) != path[depth] {
			continue
		}
		m := o.Members[i]
		last := i == len(o.Members)-1
		o.Members = append(o.Members[:i], o.Members[i+1:]...)
		if last {
			o.AfterExtra = closing(m.Name.BeforeExtra, o.AfterExtra)
			if i > 0 {
				o.Members[i-1].Value.AfterExtra = likeLast(o.Members[i-1].Value.AfterExtra, m.Value.AfterExtra)
			}
		}
		break
	}
	if len(o.Members) == 0 && len(bytes.TrimSpace(o.AfterExtra)) == 0 {
		o.AfterExtra = nil
		if depth > 0 && !keep(path[:depth]) {
			return d.Remove(keep, path[:depth]...)
		}
	}
	return nil
}

// closing returns the comments before a removed last element, then the white space before the
// closing bracket.
func closing(before, after hujson.Extra) hujson.Extra {
	return append(trimSpaceEnd(before), after...)
}

// likeLast returns the AfterExtra of an element that becomes the last one. A result that is not nil
// means a trailing comma. There is one if the removed last element had one, or if a comment precedes
// the comma.
func likeLast(extra, removed hujson.Extra) hujson.Extra {
	switch {
	case removed == nil && len(bytes.TrimSpace(extra)) == 0:
		return nil
	case removed != nil && extra == nil:
		return hujson.Extra{}
	}
	return extra
}

// array returns the array at a path of keys, or nil if there is none.
func (d *jsonc) array(path ...string) (*hujson.Array, error) {
	o, err := d.Object(path[:len(path)-1]...)
	if o == nil || err != nil {
		return nil, err
	}
	v := member(o, path[len(path)-1])
	if v == nil {
		return nil, nil
	}
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, fmt.Errorf("%s is not an array", strings.Join(path, "."))
	}
	return a, nil
}

// Push appends an element to the array at a path, which it makes if there is none.
func (d *jsonc) Push(value any, path ...string) error {
	depth := len(path)
	a, err := d.array(path...)
	if err != nil {
		return err
	}
	if a == nil {
		return d.Set([]any{value}, path...)
	}
	v, err := d.value(value, depth+1)
	if err != nil {
		return err
	}
	v.BeforeExtra = append(trimSpaceEnd(a.AfterExtra), d.nl+strings.Repeat(d.indent, depth+1)...)
	if n := len(a.Elements); n > 0 && a.Elements[n-1].AfterExtra != nil {
		v.AfterExtra = hujson.Extra{}
	}
	a.Elements = append(a.Elements, v)
	a.AfterExtra = hujson.Extra(d.nl + strings.Repeat(d.indent, depth))
	return nil
}

// Drop removes the elements of an array for which match returns true. It also removes the array and
// its parents that become empty, unless keep returns true for them.
func (d *jsonc) Drop(match func(json.RawMessage) bool, keep func([]string) bool, path ...string) error {
	a, err := d.array(path...)
	if a == nil || err != nil {
		return err
	}
	dropped := dropFrom(a, match)
	if dropped && len(a.Elements) == 0 && len(strings.TrimSpace(string(a.AfterExtra))) == 0 {
		a.AfterExtra = nil
		if !keep(path) {
			return d.Remove(keep, path...)
		}
	}
	return nil
}

// dropFrom removes the elements for which match returns true, and reports whether there were any.
func dropFrom(a *hujson.Array, match func(json.RawMessage) bool) (dropped bool) {
	for i := 0; i < len(a.Elements); i++ {
		if !match(plain(a.Elements[i])) {
			continue
		}
		dropped = true
		gone := a.Elements[i]
		last := i == len(a.Elements)-1
		a.Elements = append(a.Elements[:i], a.Elements[i+1:]...)
		if last {
			a.AfterExtra = closing(gone.BeforeExtra, a.AfterExtra)
			if i > 0 {
				a.Elements[i-1].AfterExtra = likeLast(a.Elements[i-1].AfterExtra, gone.AfterExtra)
			}
		}
		i--
	}
	return dropped
}

// plain returns a value as JSON without comments.
func plain(v hujson.Value) json.RawMessage {
	v = v.Clone()
	v.Standardize()
	v.BeforeExtra, v.AfterExtra = nil, nil
	return v.Pack()
}
