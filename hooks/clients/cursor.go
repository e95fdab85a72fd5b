package clients

import (
	"encoding/json"
	"slices"
)

// both makes two edits in one file.
type both struct{ first, second editor }

func (b both) Add(before []byte) ([]byte, error) {
	mid, err := b.first.Add(before)
	if err != nil {
		return nil, err
	}
	return b.second.Add(mid)
}

// Remove undoes the second edit first, so that the containers that Add made become empty.
func (b both) Remove(now, original []byte) ([]byte, error) {
	mid, err := b.second.Remove(now, original)
	if err != nil {
		return nil, err
	}
	return b.first.Remove(mid, original)
}

// as calls the method as of both edits; see standing.
func (b both) as(before []byte) editor {
	for _, e := range []*editor{&b.first, &b.second} {
		if a, ok := (*e).(interface{ as([]byte) editor }); ok {
			*e = a.as(before)
		}
	}
	return b
}

// cursorHooks are our lines in Cursor's hooks.json, which has a list of commands for each event.
type cursorHooks struct{ exe string }

type cursorCommand struct {
	Command string `json:"command"`
}

func (h cursorHooks) line(event string) cursorCommand {
	return cursorCommand{hookLine(h.exe, event, []string{"--client=cursor"})}
}

func isOurLine(raw json.RawMessage) bool {
	var c cursorCommand
	return json.Unmarshal(raw, &c) == nil && ourCommand().MatchString(c.Command)
}

func (h cursorHooks) Add(before []byte) ([]byte, error) {
	d, err := parseJSONC(before)
	if err != nil {
		return nil, err
	}
	if h.present(d) {
		return before, nil
	}
	if err := h.drop(d, kept(before)); err != nil {
		return nil, err
	}
	var version any
	if ok, err := d.Get(&version, "version"); err != nil {
		return nil, err
	} else if !ok {
		if err := d.Set(1, "version"); err != nil {
			return nil, err
		}
	}
	for _, e := range cursorEvents {
		if err := d.Push(h.line(e), "hooks", e); err != nil {
			return nil, err
		}
	}
	return d.Bytes(), nil
}

// present reports whether the file has all of our lines, each once, and no older ones.
func (h cursorHooks) present(d *jsonc) bool {
	var all map[string][]json.RawMessage
	if ok, err := d.Get(&all, "hooks"); err != nil || !ok {
		return false
	}
	for event, lines := range all {
		n := 0
		for _, raw := range lines {
			if isOurLine(raw) {
				n++
				var c cursorCommand
				if json.Unmarshal(raw, &c) != nil || c != h.line(event) {
					return false
				}
			}
		}
		if want := slices.Contains(cursorEvents, event); n > 1 || want != (n == 1) {
			return false
		}
	}
	for _, e := range cursorEvents {
		if all[e] == nil {
			return false
		}
	}
	return true
}

func (h cursorHooks) drop(d *jsonc, keep func([]string) bool) error {
	for i := len(cursorEvents) - 1; i >= 0; i-- {
		if err := d.Drop(isOurLine, keep, "hooks", cursorEvents[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h cursorHooks) Remove(now, original []byte) ([]byte, error) {
	d, err := parseJSONC(now)
	if err != nil {
		return nil, err
	}
	before := d.Bytes()
	keep := kept(original)
	if err := h.drop(d, keep); err != nil {
		return nil, err
	}
	if string(d.Bytes()) == string(before) {
		return now, nil
	}
	var hooks any
	if ok, err := d.Get(&hooks, "hooks"); err == nil && !ok && !keep([]string{"version"}) {
		if err := d.Remove(keep, "version"); err != nil {
			return nil, err
		}
	}
	return d.Bytes(), nil
}
