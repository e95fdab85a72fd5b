package clients

import (
	"encoding/json"
	"slices"
)

// In Claude Code's sandbox (bubblewrap on Linux) a command sees everything outside of the
// project read-only and may open no Unix socket, so that it reaches no daemon. Where a
// settings file switches it on, init takes those commands of ours out of it that look at
// the history or take something back. Not all of them: "cachebro run" and "memo" start what
// they are given. The client asks for them as for any command outside of its sandbox.

// unsandboxed are the patterns, in the syntax of the client's permission rules.
var unsandboxed = patterns("log", "show", "diff", "output", "status", "undo", "redo", "revert")

func patterns(commands ...string) (all []string) {
	for _, c := range commands {
		all = append(all, "cachebro "+c+":*")
	}
	return all
}

// excludedCommands is the place of these patterns in the settings.
var excludedCommands = []string{"sandbox", "excludedCommands"}

// sandboxedCommands are the patterns that are missing in settings with the sandbox on.
func sandboxedCommands(d *jsonc) []string {
	var on bool
	if ok, err := d.Get(&on, "sandbox", "enabled"); err != nil || !ok || !on {
		return nil
	}
	var have []string
	if _, err := d.Get(&have, excludedCommands...); err != nil {
		return nil // not as we know it: leave it alone
	}
	return slices.DeleteFunc(slices.Clone(unsandboxed), func(p string) bool {
		return slices.Contains(have, p) || slices.Contains(have, "cachebro:*") || slices.Contains(have, "cachebro *")
	})
}

// leaveSandbox adds what is missing.
func (h claudeHooks) leaveSandbox(d *jsonc) error {
	if h.regs != nil {
		return nil // another client
	}
	for _, p := range sandboxedCommands(d) {
		if err := d.Push(p, excludedCommands...); err != nil {
			return err
		}
	}
	return nil
}

// enterSandbox removes our patterns, but those that the file had before us.
func enterSandbox(d *jsonc, original []byte) error {
	var before []string
	if o, err := parseJSONC(original); err == nil {
		if _, err := o.Get(&before, excludedCommands...); err != nil {
			return nil // not as we know it: we added nothing
		}
	}
	if o, err := d.Object("sandbox"); o == nil || err != nil {
		return err
	}
	return d.Drop(func(raw json.RawMessage) bool {
		var p string
		return json.Unmarshal(raw, &p) == nil && slices.Contains(unsandboxed, p) && !slices.Contains(before, p)
	}, kept(original), excludedCommands...)
}
