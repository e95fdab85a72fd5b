package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/store/wire"
)

// A client that does not know the shape of a rewritten result ignores it without
// a word: the model gets the whole text, and we would count as saved what was
// not. So doctor tries it with the installed client (cmd/cachebro/probe), in the
// very shapes below, and what a version ignored is not rewritten for it.

// ProbeText is what the model must get in place of a result that was rewritten
// under --probe. A file whose name contains ProbeUnchanged gets the client's own
// short form instead.
const (
	ProbeText      = "cachebro: this line takes the place of the file."
	ProbeUnchanged = "unchanged"
)

// Probe is what a version of a client did with rewritten results.
type Probe struct {
	Client    string    `json:"client"` // as "claude-code/2.1.197"
	Time      time.Time `json:"time"`
	Read      bool      `json:"read"`      // honours a Read's text
	Unchanged bool      `json:"unchanged"` // honours its own "file_unchanged"
	Shell     bool      `json:"shell"`     // honours a Bash's stdout
}

// probeAnswer rewrites whatever comes, in the shapes that are sent in earnest.
func probeAnswer(ev event) answer {
	if ev.name != "PostToolUse" {
		return answer{}
	}
	path := ev.input.str("file_path")
	switch {
	case ev.tool == "Bash":
		return answer{out: output{updated: withStdout(ev.response, ProbeText)}}
	case ev.tool != "Read":
		return answer{}
	case strings.Contains(filepath.Base(path), ProbeUnchanged):
		return answer{out: output{updated: shortForm(path)}}
	}
	return answer{out: output{updated: readText{"text", readFile{path, ProbeText, 1, 1, 1}}}}
}

// ProbeFile is where the results are kept, one for each client.
func ProbeFile(p wire.Paths) (string, error) {
	base, err := p.StateBase()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "clients", "rewriting.json"), nil
}

// Probed returns what is known of a version of a client.
func Probed(p wire.Paths, client string) (Probe, bool) {
	all := probes(p)
	for _, known := range all {
		if known.Client == client {
			return known, true
		}
	}
	return Probe{}, false
}

// maxProbes versions are remembered, the newest first.
const maxProbes = 16

func probes(p wire.Paths) []Probe {
	file, err := ProbeFile(p)
	if err != nil {
		return nil
	}
	var all []Probe
	if raw, err := os.ReadFile(file); err != nil || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// SaveProbe remembers a result.
func SaveProbe(p wire.Paths, result Probe) error {
	all := []Probe{result}
	for _, known := range probes(p) {
		if known.Client != result.Client && len(all) < maxProbes {
			all = append(all, known)
		}
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file, err := ProbeFile(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return replaceFile(file, append(raw, '\n'), 0o600)
}

// Ignores reports whether the version ignores what takes the place of a tool's
// result.
func (p Probe) Ignores(tool string) bool {
	switch tool {
	case "Read":
		return !p.Read
	case "Bash":
		return !p.Shell
	}
	return false
}

// heedProbe applies what doctor found out about the client's version.
func (c *call) heedProbe() {
	c.shortForm = saysUnchanged(c.env.Getenv("AI_AGENT"))
	if c.name != "PostToolUse" || c.tool != "Read" && c.tool != "Bash" {
		return
	}
	if p, ok := Probed(c.env.Paths, clientName(c.env.Getenv("AI_AGENT"))); ok {
		c.shortForm = p.Unchanged
		c.opt.noRewrite = c.opt.noRewrite || p.Ignores(c.tool)
	}
}
