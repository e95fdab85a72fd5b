package running

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
)

// addClientFlags adds flags to the command line of a known client, so that the client uses cachebro
// without configuration. If init has registered the hooks, it adds none, because they would run
// twice.
func addClientFlags(e *cli.Env, client, project string, args []string) ([]string, error) {
	if client != "claude" || len(args) > 1 && claudeSub[args[1]] {
		return args, nil
	}
	rest, theirs, err := takeSettings(args[1:])
	if err != nil {
		return nil, err
	}
	ours := clients.ClaudeSettings(e.Exe)
	where := clients.Places{Home: e.Getenv("HOME"), Config: e.Getenv("CLAUDE_CONFIG_DIR"), Project: project}
	if where.HooksRegistered() != "" {
		ours = []byte("{}")
	}
	settings, err := mergeSettings(ours, theirs)
	if err != nil {
		return nil, err
	}
	// --mcp-config takes any number of values. Without the equals sign it would take the following
	// prompt as another value.
	return append([]string{args[0], "--settings=" + string(settings), "--mcp-config=" + string(clients.ClaudeMCP(e.Exe))}, rest...), nil
}

// claudeSub lists the sub-commands and flags that start no session.
var claudeSub = map[string]bool{
	"mcp": true, "config": true, "doctor": true, "update": true, "upgrade": true, "install": true, "plugin": true,
	"setup-token": true, "migrate-installer": true, "auth": true, "agents": true, "--version": true, "-v": true, "--help": true, "-h": true,
}

// takeSettings removes --settings from a client's arguments and returns the settings, each given as
// a file or as JSON. They must be merged with cachebro's, because the client uses only one --settings.
func takeSettings(args []string) (rest []string, settings [][]byte, err error) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(rest, args[i:]...), settings, nil
		}
		value, has := strings.CutPrefix(a, "--settings=")
		if a == "--settings" && i+1 < len(args) {
			i++
			value, has = args[i], true
		}
		if !has {
			rest = append(rest, a)
			continue
		}
		text := []byte(value)
		if !strings.HasPrefix(strings.TrimSpace(value), "{") {
			text, err = os.ReadFile(value)
			if err != nil {
				return nil, nil, fmt.Errorf("read --settings: %w", err)
			}
		}
		settings = append(settings, text)
	}
	return rest, settings, nil
}

// mergeSettings merges the user's settings into cachebro's. The hooks of both run. For all other
// keys the user's settings win.
func mergeSettings(ours []byte, theirs [][]byte) ([]byte, error) {
	if len(theirs) == 0 {
		return ours, nil
	}
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(ours, &merged); err != nil {
		return nil, fmt.Errorf("our own settings: %w", err)
	}
	for _, t := range theirs {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(t, &m); err != nil {
			return nil, cli.Hintf("correct it, or: cachebro run --bare -- …", "--settings is not JSON: %v", err)
		}
		for key, value := range m {
			if key != "hooks" {
				merged[key] = value
				continue
			}
			both, err := joinHooks(merged["hooks"], value)
			if err != nil {
				return nil, err
			}
			merged["hooks"] = both
		}
	}
	return json.Marshal(merged)
}

// joinHooks appends the groups of b to those of a, event by event.
func joinHooks(a, b json.RawMessage) (json.RawMessage, error) {
	events := map[string][]json.RawMessage{}
	for _, part := range []json.RawMessage{a, b} {
		var m map[string][]json.RawMessage
		if len(part) == 0 {
			continue
		}
		if err := json.Unmarshal(part, &m); err != nil {
			return nil, cli.Hintf("correct them, or: cachebro run --bare -- …", "the hooks in --settings have an unknown form: %v", err)
		}
		for event, groups := range m {
			events[event] = append(events[event], groups...)
		}
	}
	return json.Marshal(events)
}
