package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"cachebro/store/tokens"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// run replays the chosen traces and prints a table for each mode.
func run(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("traces", "testdata/traces", "read the traces from this directory")
	modes := fs.String("mode", "hooks,mcp", "hooks, mcp, or both")
	profile := fs.String("tools", "default", "mcp: offer this profile of tools")
	names := fs.String("session", "", "play only the traces with these comma-separated numbers; default: all")
	client := fs.String("client", claude, "hooks: play this client: "+strings.Join(clientNames, ", "))
	process := fs.Bool("process", false, "run each hook as a separate process")
	given := fs.String("binary", "", "use this cachebro binary instead of building one")
	outputs := fs.String("outputs", "", "hooks: play commands' outputs from this directory (such as hooks/reshape/testdata/corpus) in place of the recorded ones")
	seed := fs.Uint64("vary", 0, "hooks: insert prompts, rewinds, resumes, silent clearings, shell views and files outside of the project into the sessions, chosen by this random seed")
	verbose := fs.Bool("v", false, "print every answer other than the full text")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if !slices.Contains(clientNames, *client) {
		return fmt.Errorf("client %q: want %s", *client, strings.Join(clientNames, ", "))
	}
	var only []string
	if *names != "" {
		only = strings.Split(*names, ",")
	}
	traces, err := loadAll(*dir, only)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "cachebro-replay-bin")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	binary, version, err := build(tmp, *given)
	if err != nil {
		return err
	}
	var samples corpus
	if *outputs != "" {
		samples, err = loadCorpus(*outputs)
		if err != nil {
			return err
		}
	}
	wrong := 0
	for _, mode := range strings.Split(*modes, ",") {
		o := options{mode: mode, client: *client, profile: *profile, process: *process, verbose: *verbose, binary: binary, version: version,
			tokens: tokens.EstimateString, corpus: samples, seed: *seed, progress: func(s string) { fmt.Fprintln(stderr, s) }}
		rs, err := replay(traces, o)
		if err != nil {
			return err
		}
		table(stdout, title(o), rs)
		for _, r := range rs {
			wrong += len(r.wrong)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d stubs or diffs were false", wrong)
	}
	return nil
}

func title(o options) string {
	if o.mode == "hooks" {
		return "through the hooks of " + o.client + " (its own tools, no schema)"
	}
	return "through MCP, --tools=" + o.profile
}

// replay plays traces one after the other.
func replay(traces []*trace, o options) ([]*result, error) {
	if o.mode != "hooks" && o.mode != "mcp" {
		return nil, fmt.Errorf("mode %q: want hooks or mcp", o.mode)
	}
	var rs []*result
	for _, t := range traces {
		r, err := play(t, o)
		if err != nil {
			return rs, err
		}
		rs = append(rs, r)
	}
	return rs, nil
}
