package clients

import (
	"encoding/json"
	"slices"
)

// In Claude Code's sandbox (bubblewrap on Linux) a command can write only in the project and open
// no Unix socket, so it cannot reach the daemon. If a settings file enables the sandbox, init lists
// the cachebro commands that read the history or undo changes, so that they run outside of it. The
// client asks the user before it runs one. The other cachebro commands stay in the sandbox, because
// "cachebro run" and "cachebro memo" start any program.

// unsandboxed are patterns in the syntax of the client's permission rules.
var unsandboxed = patterns("log", "show", "diff", "output", "status", "undo", "redo", "revert")

func patterns(commands ...string) (all []string) {
	for _, c := range commands {
		all = append(all, "cachebro "+c+":*")
	}
	return all
}

// excludedCommands is the path of these patterns in the settings.
var excludedCommands = []string{"sandbox", "excludedCommands"}

// sandboxedCommands returns the patterns that the settings lack, or none if the settings do not
// enable the sandbox.
func sandboxedCommands(d *jsonc) []string {
	var on bool
	if ok, err := d.Get(&on, "sandbox", "enabled"); err != nil || !ok || !on {
		return nil
	}
	var have []string
	if _, err := d.Get(&have, excludedCommands...); err != nil {
		return nil // unknown format: change nothing
	}
	return slices.DeleteFunc(slices.Clone(unsandboxed), func(p string) bool {
		return slices.Contains(have, p) || slices.Contains(have, "cachebro:*") || slices.Contains(have, "cachebro *")
	})
}

// leaveSandbox adds the missing patterns.
func (h claudeHooks) leaveSandbox(d *jsonc) error {
	if h.regs != nil {
		return nil // not Claude Code
	}
	for _, p := range sandboxedCommands(d) {
		if err := d.Push(p, excludedCommands...); err != nil {
			return err
		}
	}
	return nil
}

// enterSandbox removes our patterns that the original file did not contain.
func enterSandbox(d *jsonc, original []byte) error {
	var before []string
	if o, err := parseJSONC(original); err == nil {
		if _, err := o.Get(&before, excludedCommands...); err != nil {
			return nil // unknown format, so leaveSandbox added nothing
		}
	}
	if o, err := d.Object("sandbox"); o == nil || err != nil {
		return err
	}
	return d.Drop(func(raw json.RawMessage) bool {
		var p string
		return json.Unmarshal(raw, &p) == nil && slices.Contains(unsandboxed, p) && !slices.Contains(before, p)
	}, wasIn(original), excludedCommands...)
}
