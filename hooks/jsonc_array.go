package hooks

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// array finds the array at a path of keys; nil when it is not there.
func (d *jsonc) array(path ...string) (*hujson.Array, error) {
	o, err := d.object(path[:len(path)-1]...)
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

// push appends an element to the array at a path, making it when missing.
func (d *jsonc) push(value any, path ...string) error {
	depth := len(path)
	a, err := d.array(path...)
	if err != nil {
		return err
	}
	if a == nil {
		return d.set([]any{value}, path...)
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

// drop removes the elements of an array that match, and the array and its
// parents when they become empty and are not in keep.
func (d *jsonc) drop(match func(json.RawMessage) bool, keep func([]string) bool, path ...string) error {
	a, err := d.array(path...)
	if a == nil || err != nil {
		return err
	}
	dropped := false
	for i := 0; i < len(a.Elements); i++ {
		e := a.Elements[i].Clone()
		e.Standardize()
		e.BeforeExtra, e.AfterExtra = nil, nil
		if !match(json.RawMessage(e.Pack())) {
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
	if dropped && len(a.Elements) == 0 && len(strings.TrimSpace(string(a.AfterExtra))) == 0 {
		a.AfterExtra = nil
		if !keep(path) {
			return d.remove(keep, path...)
		}
	}
	return nil
}
