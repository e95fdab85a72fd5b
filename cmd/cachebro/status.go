package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/wire"
)

func statusCommand() command {
	return command{
		name: "status", group: groupEvery, args: "[DIR]", short: "is the project watched, and is everything kept?",
		long: `Says whether the project is mounted, how far the first scan is, how many versions
are kept, and what could not be kept. Exit status 1 when the project was never
mounted, its mount is dead, or the store does not answer.

Examples:
  cachebro status
  cachebro status --all
  cachebro status --json | jq .store`,
		run: runStatus,
	}
}

func runStatus(ctx context.Context, e *env) error {
	fs := e.flags()
	all := fs.Bool("all", false, "all projects of this user that are mounted or have a history")
	asJSON := fs.Bool("json", false, "print JSON")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	if *all {
		if len(args) > 0 {
			return e.usagef("status: --all takes no directory")
		}
		return e.statusAll(ctx, *asJSON)
	}
	t, err := e.directory(args)
	if err != nil {
		return err
	}
	c, err := e.connect(ctx, t.root)
	if c != nil {
		defer c.Close()
	}
	if err != nil && (c == nil || !errors.Is(err, wire.ErrVersion)) {
		return err
	}
	versionErr := err
	st, err := e.askStatus(ctx, c)
	if err != nil {
		return err
	}
	var dead *errDeadMount
	if !st.Mounted {
		dead = deadMount(st.Root)
	}
	if *asJSON {
		err = e.printStatusJSON(st, dead)
	} else {
		e.printStatus(t, st)
		err = versionErr
	}
	if err == nil && dead != nil {
		err = dead
	}
	return err
}

// askStatus asks; a mountd that has not said hello to a new daemon yet is given
// a moment, so that "not mounted" is true when it is said.
func (e *env) askStatus(ctx context.Context, c *wire.Client) (wire.Status, error) {
	for wait := 0; ; wait++ {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil || st.Mounted || wait >= 30 {
			return st, err
		}
		overlays, _ := mounts.Overlays()
		if !mountedHere(overlays, c.Root()) {
			return st, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func mountedHere(overlays []mounts.Mount, root string) bool {
	for _, m := range overlays {
		if m.Source == root && mounts.Answers(m.Point, time.Second) == nil {
			return true
		}
	}
	return false
}

func (e *env) printStatusJSON(st wire.Status, dead *errDeadMount) error {
	m, err := object(st, nil)
	if err != nil {
		return err
	}
	gaps := make([]map[string]any, 0, len(st.Gaps))
	for _, g := range st.Gaps {
		o, err := object(g, map[string][]byte{"path": g.Path})
		if err != nil {
			return err
		}
		gaps = append(gaps, o)
	}
	m["gaps"] = gaps
	if dead != nil {
		m["dead_mount"] = dead.point
	}
	if crash, ok := supervisor.ReadCrash(st.State); ok && !st.Mounted {
		m["crash"] = crash
	}
	return e.printJSON(m)
}

// printStatus is the page for people: what is on, what is kept, what is not.
func (e *env) printStatus(t target, st wire.Status) {
	p, w := paint{e.colour()}, e.stdout
	switch {
	case st.Mounted && st.Mountpoint != "" && st.Mountpoint != st.Root:
		fmt.Fprintf(w, "%s is %s at %s (mountd pid %d)\n", quote(st.Root), p.green("mounted"), quote(st.Mountpoint), st.MountdPID)
	case st.Mounted:
		fmt.Fprintf(w, "%s is %s (mountd pid %d)\n", quote(st.Root), p.green("mounted"), st.MountdPID)
	case e.mountedElsewhere(st.Root) != nil:
		other := e.mountedElsewhere(st.Root)
		fmt.Fprintf(w, "%s\n  %s\n", p.red(oneLine(other.Error())), other.Hint())
	default:
		fmt.Fprintf(w, "%s is %s: changes are not seen as they happen\n", quote(st.Root), p.red("not mounted"))
		if crash, ok := supervisor.ReadCrash(st.State); ok {
			fmt.Fprintf(w, "  the last mount ended by itself at %s (%s)\n", crash.Time.Format("2006-01-02 15:04:05"), oneLine(crash.How))
			for _, q := range crash.Inside {
				if mounts.Running(q.PID, q.Start) {
					fmt.Fprintf(w, "  must cd again: %s\n", oneLine(q.String()))
				}
			}
		}
	}
	if st.Mounted {
		fmt.Fprintln(w, "capture:  "+captureLine(p, st))
	}
	fmt.Fprintln(w, "baseline: "+baselineLine(st.Baseline, e.now()))
	fmt.Fprintf(w, "store:    %d versions of %d files, %s on disk, %s free%s\n", st.Store.Versions, st.Store.Files, bytesText(st.Store.DiskBytes), bytesText(st.Store.FreeBytes), lagText(st.Store.Lag))
	if text, ok := st.Index["text"].(string); ok {
		fmt.Fprintln(w, "index:    "+oneLine(text))
	}
	if st.Results != nil && st.Results.Text != "" {
		fmt.Fprintln(w, "results:  "+oneLine(st.Results.Text))
	}
	if !st.Store.Healthy {
		fmt.Fprintf(w, "          %s: %s\n", p.red("stopped"), oneLine(st.Store.Reason))
	}
	if st.GapCount+st.Capture.Gaps > 0 {
		fmt.Fprintf(w, "gaps:     %s\n", p.red(fmt.Sprintf("%d contents were not kept", st.GapCount+st.Capture.Gaps)))
		for i, g := range st.Gaps {
			if i == 5 {
				fmt.Fprintf(w, "          … (--json shows more)\n")
				break
			}
			fmt.Fprintf(w, "          %s %s: %s\n", strings.TrimSpace(stamp(g.Time, e.now())), quote(string(g.Path)), oneLine(g.Reason))
		}
	}
	if st.Outside {
		if procs := mounts.Scan(st.Root, overlayIDs(st.Root), false, mounts.Ours); len(procs) > 0 && st.Mounted {
			fmt.Fprintf(w, "beside:   %s (cd . to enter the overlay)\n", oneLine(mounts.Describe(procs, 5)))
		}
		if ways := mounts.Beside(st.Root); len(ways) > 0 {
			fmt.Fprintf(w, "beside:   %s (changes made there have no author)\n", oneLine(mounts.Describe(ways, 5)))
		}
	}
	if st.Sessions > 0 {
		fmt.Fprintf(w, "sessions: %d live\n", st.Sessions)
	}
	if e.gitAsks(st.Root) {
		fmt.Fprintf(w, "git:      asks the mount what changed\n")
	}
	fmt.Fprintf(w, "state:    %s (daemon pid %d, version %s)\n", quote(st.State), st.DaemonPID, st.Version)
}

func overlayIDs(root string) map[int]bool {
	ids := map[int]bool{}
	overlays, _ := mounts.Overlays()
	for _, m := range overlays {
		if m.Source == root {
			ids[m.ID] = true
		}
	}
	return ids
}

func captureLine(p paint, st wire.Status) string {
	c := st.Capture
	if c.State == "stopped" {
		return p.red("stopped") + " since " + c.Since.Local().Format("15:04:05") + ": " + oneLine(c.Reason)
	}
	text := p.green("on")
	if c.Queue > 0 {
		text += fmt.Sprintf(", %d contents queued", c.Queue)
	}
	if c.Spooled > 0 {
		text += fmt.Sprintf(", %s in the spool", bytesText(c.Spooled))
	}
	return text + fmt.Sprintf(", %d inodes, %d open files", c.Inodes, c.Handles)
}

func baselineLine(b wire.Baseline, now time.Time) string {
	switch {
	case b.Done:
		return fmt.Sprintf("done, %d files, %s, in %s", b.Files, bytesText(b.Bytes), b.Ended.Sub(b.Started).Round(10*time.Millisecond))
	case b.Running && b.Total > b.Files:
		return fmt.Sprintf("%d of %d files (%d %%), %s, for %s", b.Files, b.Total, 100*b.Files/b.Total, bytesText(b.Bytes), now.Sub(b.Started).Round(time.Second))
	case b.Running:
		return fmt.Sprintf("%d files so far, %s", b.Files, bytesText(b.Bytes))
	}
	return "not yet made"
}

func lagText(lag uint64) string {
	if lag == 0 {
		return ""
	}
	return fmt.Sprintf(", %d records still to come from the spool", lag)
}

// rootOf is the root of a state directory where up noted it, else "".
func rootOf(state string) string {
	b, _ := os.ReadFile(filepath.Join(state, setUpFile)) // there is none without up
	return strings.TrimSuffix(string(b), "\n")
}

// statusAll lists projects, one line each.
func (e *env) statusAll(ctx context.Context, asJSON bool) error {
	overlays, err := mounts.Overlays()
	if err != nil {
		return err
	}
	type line struct {
		Root       string `json:"root"`
		Mountpoint string `json:"mountpoint,omitempty"`
		State      string `json:"state,omitempty"`
		Answers    bool   `json:"answers"`
		Error      string `json:"error,omitempty"`
		Versions   uint64 `json:"versions,omitempty"`
		Gaps       int64  `json:"gaps,omitempty"`
	}
	var lines []line
	seen := map[string]bool{}
	for _, m := range overlays {
		l := line{Root: m.Source, Mountpoint: m.Point}
		if err := mounts.Answers(m.Point, 2*time.Second); err != nil {
			l.Error = err.Error()
		} else {
			l.Answers = true
		}
		if state, err := e.paths().State(m.Source); err == nil {
			l.State, seen[state] = state, true
		}
		if l.Answers {
			// Only asked where a daemon runs: a list must not start any.
			hello := wire.Hello{Version: version, Client: "cli", Root: m.Source}
			if c, err := wire.Dial(ctx, e.paths(), hello, wire.Timeouts{Connect: time.Second, Answer: 2 * time.Second}); err == nil {
				if st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{}); err == nil {
					l.Versions, l.Gaps = st.Store.Versions, st.GapCount
				}
				c.Close()
			}
		}
		lines = append(lines, l)
	}
	if base, err := e.paths().StateBase(); err == nil {
		states, _ := filepath.Glob(filepath.Join(base, "*-????????????????"))
		for _, s := range states {
			if !seen[s] {
				lines = append(lines, line{Root: rootOf(s), State: s})
			}
		}
	}
	for _, l := range lines {
		if asJSON {
			b, err := json.Marshal(l)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "%s\n", b)
			continue
		}
		switch {
		case l.Error != "":
			fmt.Fprintf(e.stdout, "%s: %s (cachebro umount %s)\n", quote(l.Mountpoint), oneLine(l.Error), arg(l.Mountpoint))
		case l.Mountpoint != "":
			fmt.Fprintf(e.stdout, "%s: mounted, %d versions, %d gaps\n", quote(l.Mountpoint), l.Versions, l.Gaps)
		default:
			name := l.Root
			if name == "" {
				name = filepath.Base(l.State)
				name = name[:strings.LastIndexByte(name, '-')]
			}
			fmt.Fprintf(e.stdout, "%s: not mounted, history in %s\n", quote(name), quote(l.State))
		}
	}
	if len(lines) == 0 && !asJSON {
		fmt.Fprintln(e.stderr, "no project is mounted or has a history")
	}
	return nil
}
