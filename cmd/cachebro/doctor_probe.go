package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cachebro/cmd/cachebro/probe"
	"cachebro/hooks"
)

// probeWithin is for the client's start and its four requests.
const probeWithin = 30 * time.Second

// rewriting says whether the installed Claude Code honours rewritten results. A
// version that is known already is tried again only when asked to.
func (e *env) rewriting(ctx context.Context, again bool) []finding {
	client, err := exec.LookPath("claude")
	if err != nil {
		return nil
	}
	if client, err = filepath.Abs(client); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	version, err := probe.Version(ctx, client)
	if err != nil {
		return []finding{good("rewriting", "could not be tried: %v", err)}
	}
	p, known := hooks.Probed(e.paths(), version)
	if !known || again {
		opt := probe.Options{Client: client, Exe: e.exe, Path: e.getenv("PATH"), Now: e.now}
		if p, err = probe.Rewriting(ctx, opt); err != nil {
			f := good("rewriting", "could not be tried with %s: %v", version, err)
			f.Fix = "cachebro doctor --probe"
			return []finding{f}
		}
		if err := hooks.SaveProbe(e.paths(), p); err != nil {
			return []finding{wrongErr("rewriting", "", fmt.Errorf("remember what %s does: %w", version, err))}
		}
	}
	var without []string
	for _, tool := range []string{"Read", "Bash"} {
		if p.Ignores(tool) {
			without = append(without, tool)
		}
	}
	if len(without) > 0 {
		f := good("rewriting", "%s ignores rewritten results of %s, so they are left alone; read_file (MCP) saves all the same", version, strings.Join(without, " and "))
		f.Fix = "cachebro init --client claude --guard=suggest"
		return []finding{f}
	}
	return []finding{good("rewriting", "%s shows the model what hooks make of Read and Bash (tried %s)", version, strings.TrimSpace(stamp(p.Time, e.now())))}
}
