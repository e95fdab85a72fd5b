package clients

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"cachebro/store/leaf/text"

	"github.com/tailscale/hujson"
)

// jsonEntry is one value at a path of keys.
type jsonEntry struct {
	path  []string
	value any
}

func (e jsonEntry) Add(before []byte) ([]byte, error) {
	d, err := parseJSONC(before)
	if err != nil {
		return nil, err
	}
	var now any
	ok, err := d.Get(&now, e.path...)
	if err != nil {
		return nil, err
	}
	if ok && sameJSON(now, e.value) {
		return before, nil
	}
	if err := d.Set(e.value, e.path...); err != nil {
		return nil, err
	}
	return d.Bytes(), nil
}

func (e jsonEntry) Remove(now, original []byte) ([]byte, error) {
	d, err := parseJSONC(now)
	if err != nil {
		return nil, err
	}
	var v any
	if ok, err := d.Get(&v, e.path...); err != nil || !ok {
		return now, err
	}
	if err := d.Remove(wasIn(original), e.path...); err != nil {
		return nil, err
	}
	return d.Bytes(), nil
}

// asRegistered returns e with the file's value if the file's entry starts the same program with the
// same first argument, and else e. So an entry that init wrote with other options counts as ours.
func (e jsonEntry) asRegistered(before []byte) editor {
	d, err := parseJSONC(before)
	if err != nil {
		return e
	}
	var now any
	if ok, err := d.Get(&now, e.path...); err != nil || !ok {
		return e
	}
	if a, b := programOf(now), programOf(e.value); len(a) > 1 && len(b) > 1 && a[0] == b[0] && a[1] == b[1] {
		e.value = now
	}
	return e
}

// programOf returns the command line of a server entry, which has a command and args, or one array
// with both.
func programOf(entry any) []string {
	raw, err := json.Marshal(entry)
	if err != nil {
		return nil
	}
	var f struct{ Command, Args json.RawMessage }
	if json.Unmarshal(raw, &f) != nil {
		return nil
	}
	var one string
	var command, args []string
	if json.Unmarshal(f.Command, &one) == nil && one != "" {
		command = []string{one}
	} else if json.Unmarshal(f.Command, &command) != nil {
		return nil
	}
	_ = json.Unmarshal(f.Args, &args) // there may be none
	return append(command, args...)
}

// sameJSON compares a decoded value with the encoding of a Go value.
func sameJSON(now, value any) bool {
	var want any
	b, err := json.Marshal(value)
	return err == nil && json.Unmarshal(b, &want) == nil && reflect.DeepEqual(now, want)
}

// wasIn returns a function that reports whether a container was in the original file. Such a
// container is not removed even if it is empty.
func wasIn(original []byte) func([]string) bool {
	d, err := parseJSONC(original)
	return func(path []string) bool {
		if err != nil {
			return false
		}
		var v any
		ok, err := d.Get(&v, path...)
		return ok || err != nil
	}
}

// claudeHooks are our groups in the "hooks" of Claude Code's settings, which may also have groups
// of other programs.
type claudeHooks struct {
	exe        string
	options    []string
	statusLine bool
	worktrees  bool
	regs       []registration // nil means Claude Code's
	flat       bool           // Cursor's form: each event has a list of commands, and the file has a version key
}

func (h claudeHooks) want() map[string][]hookGroup {
	all := groups(h.registrations(), h.exe, h.options)
	if h.flat {
		for _, g := range all {
			g[0] = hookGroup{Command: g[0].Hooks[0].Command}
		}
	}
	return all
}

func (h claudeHooks) registrations() []registration {
	switch {
	case h.regs != nil:
		return h.regs
	case h.worktrees:
		return slices.Concat(registrations, worktreeEvents)
	}
	return registrations
}

// ourCommand matches the hook lines that any version of cachebro registers.
var ourCommand = text.LazyRegexp(`(^|[/'" ])[^/'" ]*cachebro[^/'" ]*['"]? (hook|statusline)\b`)

type commandLine struct{ Command string }

func isOurs(c commandLine) bool { return ourCommand().MatchString(c.Command) }

// isOurGroup reports whether all commands of a group are ours.
func isOurGroup(raw json.RawMessage) bool {
	var g struct {
		commandLine
		Hooks []commandLine
	}
	if json.Unmarshal(raw, &g) != nil {
		return false
	}
	if len(g.Hooks) == 0 {
		return isOurs(g.commandLine)
	}
	return !slices.ContainsFunc(g.Hooks, func(c commandLine) bool { return !isOurs(c) })
}

// leaveGroups removes our commands from the groups of an event that also have commands of others.
// Clients add a person's hook to the group that has its matcher already, which may be ours.
func leaveGroups(d *jsonc, event string) error {
	a, err := d.array("hooks", event)
	if a == nil || err != nil {
		return err
	}
	for _, e := range a.Elements {
		o, ok := e.Value.(*hujson.Object)
		if !ok || isOurGroup(plain(e)) {
			continue
		}
		if v := member(o, "hooks"); v != nil {
			if commands, ok := v.Value.(*hujson.Array); ok {
				dropFrom(commands, func(raw json.RawMessage) bool {
					var c commandLine
					return json.Unmarshal(raw, &c) == nil && isOurs(c)
				})
			}
		}
	}
	return nil
}

func (h claudeHooks) Add(before []byte) ([]byte, error) {
	d, err := parseJSONC(before)
	if err != nil {
		return nil, err
	}
	want := h.want()
	if h.present(d, want) {
		return before, nil
	}
	// First remove our groups that an older version wrote, or that have other options.
	if err := h.dropAll(d, wasIn(before)); err != nil {
		return nil, err
	}
	if err := h.leaveSandbox(d); err != nil {
		return nil, err
	}
	if h.flat {
		if err := d.SetDefault(1, "version"); err != nil {
			return nil, err
		}
	}
	for _, r := range h.registrations() {
		for _, g := range want[r.event] {
			if err := d.Push(g, "hooks", r.event); err != nil {
				return nil, err
			}
		}
	}
	if h.statusLine {
		if err := d.SetDefault(h.status(), "statusLine"); err != nil {
			return nil, err
		}
	}
	return d.Bytes(), nil
}

func (h claudeHooks) status() any {
	return struct {
		Type    string `json:"type"`
		Command string `json:"command"`
	}{"command", ShellQuote(h.exe) + " statusline"}
}

// asRegistered returns h with the options registered in the file.
func (h claudeHooks) asRegistered(before []byte) editor {
	d, err := parseJSONC(before)
	if err != nil {
		return h
	}
	var all map[string][]hookGroup
	if ok, err := d.Get(&all, "hooks"); err != nil || !ok {
		return h
	}
	for _, g := range all["SessionStart"] {
		for _, c := range g.Hooks {
			_, line, ok := strings.Cut(c.Command, " hook SessionStart")
			if ok && ourCommand().MatchString(c.Command) {
				options, _, _ := strings.Cut(line, ";")
				h.options = strings.Fields(options)
			}
		}
	}
	for _, g := range all[worktreeEvents[0].event] {
		for _, c := range g.Hooks {
			h.worktrees = h.worktrees || ourCommand().MatchString(c.Command)
		}
	}
	return h
}

// present reports whether exactly our groups are registered.
func (h claudeHooks) present(d *jsonc, want map[string][]hookGroup) bool {
	var all map[string][]json.RawMessage
	if ok, err := d.Get(&all, "hooks"); err != nil || !ok {
		return false
	}
	for event, groups := range all {
		var ours []any
		for _, raw := range groups {
			var v any
			if isOurGroup(raw) && json.Unmarshal(raw, &v) == nil {
				ours = append(ours, v)
			}
		}
		if len(ours) > 0 && want[event] == nil || want[event] != nil && !sameJSON(ours, want[event]) {
			return false
		}
	}
	for event := range want {
		if all[event] == nil {
			return false
		}
	}
	if h.regs == nil && len(sandboxedCommands(d)) > 0 {
		return false
	}
	if h.statusLine {
		var v any
		ok, err := d.Get(&v, "statusLine")
		return ok && err == nil
	}
	return true
}

func (h claudeHooks) dropAll(d *jsonc, keep func([]string) bool) error {
	o, err := d.Object("hooks")
	if err != nil {
		return err
	}
	if o != nil {
		var events []string
		for _, m := range o.Members {
			events = append(events, memberKey(m))
		}
		slices.Reverse(events)
		for _, e := range events {
			if err := leaveGroups(d, e); err != nil {
				return err
			}
			if err := d.Drop(isOurGroup, keep, "hooks", e); err != nil {
				return err
			}
		}
	}
	var status struct {
		Command string `json:"command"`
	}
	if ok, err := d.Get(&status, "statusLine"); err == nil && ok && ourCommand().MatchString(status.Command) {
		return d.Remove(keep, "statusLine")
	}
	return nil
}

func (h claudeHooks) Remove(now, original []byte) ([]byte, error) {
	d, err := parseJSONC(now)
	if err != nil {
		return nil, err
	}
	before, keep := d.Bytes(), wasIn(original)
	if err := h.dropAll(d, keep); err != nil {
		return nil, err
	}
	if err := enterSandbox(d, original); err != nil {
		return nil, err
	}
	if bytes.Equal(before, d.Bytes()) {
		return now, nil
	}
	var hooks any
	if ok, err := d.Get(&hooks, "hooks"); h.flat && err == nil && !ok && !keep([]string{"version"}) {
		if err := d.Remove(keep, "version"); err != nil {
			return nil, err
		}
	}
	return d.Bytes(), nil
}
