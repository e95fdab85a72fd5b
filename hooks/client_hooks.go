package hooks

import (
	"encoding/json"
	"slices"
)

// both is two edits of one file.
type both struct{ first, second editor }

func (b both) add(before []byte) ([]byte, error) {
	mid, err := b.first.add(before)
	if err != nil {
		return nil, err
	}
	return b.second.add(mid)
}

// remove goes backwards, so that what is empty in the end is what add made.
func (b both) remove(now, original []byte) ([]byte, error) {
	mid, err := b.second.remove(now, original)
	if err != nil {
		return nil, err
	}
	return b.first.remove(mid, original)
}

// as asks both: see CheckClients.
func (b both) as(before []byte) editor {
	for _, e := range []*editor{&b.first, &b.second} {
		if a, ok := (*e).(interface{ as([]byte) editor }); ok {
			*e = a.as(before)
		}
	}
	return b
}

// cursorHooks are our lines in Cursor's hooks.json: a list of commands for each
// event, without groups.
type cursorHooks struct{ exe string }

type cursorCommand struct {
	Command string `json:"command"`
}

func (h cursorHooks) line(event string) cursorCommand {
	return cursorCommand{hookLine(h.exe, event, []string{"--client=cursor"})}
}

func isOurLine(raw json.RawMessage) bool {
	var c cursorCommand
	return json.Unmarshal(raw, &c) == nil && ourCommand.MatchString(c.Command)
}

func (h cursorHooks) add(before []byte) ([]byte, error) {
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
	if ok, err := d.get(&version, "version"); err != nil {
		return nil, err
	} else if !ok {
		if err := d.set(1, "version"); err != nil {
			return nil, err
		}
	}
	for _, e := range cursorEvents {
		if err := d.push(h.line(e), "hooks", e); err != nil {
			return nil, err
		}
	}
	return d.bytes(), nil
}

// present: exactly our lines, each once.
func (h cursorHooks) present(d *jsonc) bool {
	var all map[string][]json.RawMessage
	if ok, err := d.get(&all, "hooks"); err != nil || !ok {
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
		if err := d.drop(isOurLine, keep, "hooks", cursorEvents[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h cursorHooks) remove(now, original []byte) ([]byte, error) {
	d, err := parseJSONC(now)
	if err != nil {
		return nil, err
	}
	before := d.bytes()
	keep := kept(original)
	if err := h.drop(d, keep); err != nil {
		return nil, err
	}
	if string(d.bytes()) == string(before) {
		return now, nil
	}
	var hooks any
	if ok, err := d.get(&hooks, "hooks"); err == nil && !ok && !keep([]string{"version"}) {
		if err := d.remove(keep, "version"); err != nil {
			return nil, err
		}
	}
	return d.bytes(), nil
}
