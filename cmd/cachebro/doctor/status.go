package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/fork"
	"cachebro/cmd/cachebro/history"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/cmd/cachebro/setup"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// StatusCommand returns the command cachebro status.
func StatusCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "is the project watched, and is every change recorded?",
		Long: `Says whether every change is recorded, what is missing and why, and what was done
last. The exit status is 1 if the project was never mounted, its mount is dead, or
the store does not answer.`,
		Example: `  cachebro status
  cachebro status -v                store, index, spool, git, bucket, processes
  cachebro status --all
  cachebro status --json | jq .store`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	all := fs.Bool("all", false, "all projects of this user that are mounted or have a history")
	asJSON := fs.Bool("json", false, "print JSON")
	verbose := fs.BoolP("verbose", "v", false, "also print details: store, index, spool, git, bucket, processes")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		if *all {
			return statusAll(ctx, e, *asJSON)
		}
		t, err := e.Locate(".")
		if err != nil {
			return err
		}
		c, err := e.Connect(ctx, t.Root)
		if c != nil {
			defer c.Close()
		}
		if err != nil && (c == nil || !errors.Is(err, wire.ErrVersion)) {
			return err
		}
		versionErr := err
		st, err := e.AskStatus(ctx, c)
		if err != nil {
			return err
		}
		if st.Mounted && t.Point != "" {
			st.Mountpoint = t.Point // mountd does not learn that a directory above was renamed
		}
		dead := cli.DeadMount(st.Root)
		if dead != nil {
			st.Mounted = false // a mount can be dead while mountd is still ending, which the daemon notices only afterwards
		}
		if *asJSON {
			err = printStatusJSON(e, st, dead)
		} else {
			printStatus(e, st)
			if versionErr == nil { // a daemon of another version cannot answer this
				printLast(ctx, e, c)
			}
			if *verbose {
				printDetails(e, st)
			}
			err = versionErr
		}
		if err == nil && dead != nil {
			err = dead
		}
		return err
	})
}

func printStatusJSON(e *cli.Env, st wire.Status, dead *cli.ErrDeadMount) error {
	m := cli.Object(st, nil)
	m["gaps"] = cli.Objects(st.Gaps, func(g wire.Gap) map[string][]byte { return map[string][]byte{"path": g.Path} })
	if dead != nil {
		m["dead_mount"] = dead.Point
	}
	if crash, ok := supervisor.ReadCrash(st.State); ok && !st.Mounted {
		m["crash"] = crash
	}
	return e.PrintJSON(m)
}

// printLast prints the last action in the same words as log.
func printLast(ctx context.Context, e *cli.Env, c *wire.Client) {
	ctx, cancel := context.WithTimeout(ctx, lastWithin)
	defer cancel()
	a, ok := history.LastAction(func(q wire.ActionsQuery) (wire.Actions, error) {
		return wire.Call[wire.Actions](ctx, c, wire.MActions, q)
	})
	if ok {
		fmt.Fprintf(e.Stdout, "last:     %s\n", history.Summary(a, e.Now()))
	}
}

// lastWithin bounds how long status waits for the last action. After that it omits the action.
const lastWithin = 2 * time.Second

// printStatus prints whether every change is recorded and, if not, what is missing.
func printStatus(e *cli.Env, st wire.Status) {
	p, w := e.Paint(), e.Stdout
	mounted := cli.Quote(st.Root) + " is mounted"
	if st.Mountpoint != "" && st.Mountpoint != st.Root {
		mounted += " at " + cli.Quote(st.Mountpoint)
	}
	gaps := st.GapCount + st.Capture.Gaps
	other := e.MountedElsewhere(st.Root)
	switch {
	case !st.Mounted && other != nil:
		fmt.Fprintf(w, "%s\n  %s\n", p.Red(cli.OneLine(other.Error())), other.Hint())
	case st.Root == wire.OutsideRoot:
		fmt.Fprintf(w, "Changes by watched commands outside of projects are kept for %d days, for files up to %d MiB (cachebro run; cachebro log --outside)\n", limits.OutsideFor/(24*time.Hour), limits.Content>>20)
	case !st.Mounted:
		fmt.Fprintf(w, "%s: %s is not mounted (cachebro mount %s)\n", p.Red("Changes are not recorded as they happen"), cli.Quote(st.Root), cli.Arg(st.Root))
		printCrash(e, st.State)
	case st.Capture.State == "stopped":
		fmt.Fprintf(w, "%s since %s: %s; %s\n", p.Red("Changes are not recorded"), st.Capture.Since.Local().Format("15:04:05"), cli.OneLine(st.Capture.Reason), mounted)
	case !st.Store.Healthy:
		fmt.Fprintf(w, "%s: %s; %s\n", p.Red("Changes are recorded but not yet stored"), cli.OneLine(st.Store.Reason), mounted)
	case gaps > 0:
		fmt.Fprintf(w, "%s: %s\n", p.Red("Every change is recorded, but not "+text.Count(gaps, "content")), mounted)
	default:
		fmt.Fprintf(w, "%s: %s\n", p.Green("Every change is recorded"), mounted)
	}
	for i, g := range st.Gaps {
		if i == maxGaps {
			fmt.Fprintln(w, "  … (--json shows more)")
			break
		}
		fmt.Fprintf(w, "  content not saved: %s at %s: %s\n", cli.Quote(string(cli.Shown(st.Root, g.Path))), cli.Stamp(g.Time, e.Now()), cli.OneLine(g.Reason))
	}
	if !st.Baseline.Done && (st.Mounted || st.Baseline.Running) {
		fmt.Fprintln(w, "baseline: "+baselineLine(st.Baseline, e.Now())+": the files that existed before the mount are being read")
	}
	if state, err := e.Paths().State(wire.OutsideRoot); err == nil && st.Root != wire.OutsideRoot && cli.IsDir(state) {
		fmt.Fprintln(w, "outside:  changes by cachebro run's commands outside of projects are recorded too (cachebro log --outside, cachebro store du /)")
	}
	if from, ok := fork.OriginOf(e, st.Root); ok {
		fmt.Fprintf(w, "fork:     of %s at version %d, made %s (cachebro fork diff, fork merge)\n", cli.Quote(from.Root), from.Seq, cli.Stamp(from.Made, e.Now()))
	}
	if st.Remote != nil && st.Remote.Error != "" {
		fmt.Fprintln(w, "remote:   "+remoteLine(p, *st.Remote, e.Now()))
	}
	if st.Store.Memory != "" {
		fmt.Fprintf(w, "memory:   %s; nothing is lost, but building the index takes long; allow more memory\n", st.Store.Memory)
	}
	if apart := history.GitApart(cmp.Or(st.Mountpoint, st.Root)); apart != "" {
		fmt.Fprintf(w, "git:      %s\n", apart)
	}
	if st.Outside || st.Watched {
		if procs := mounts.Scan(st.Root, cli.OverlayIDs(st.Root), false, mounts.Ours); len(procs) > 0 && st.Mounted {
			fmt.Fprintf(w, "bypass:   %s (cd . enters the mount)\n", cli.OneLine(mounts.Describe(procs, 5)))
		}
		used, idle := mounts.Used(mounts.Beside(st.Root))
		if len(used) > 0 {
			fmt.Fprintf(w, "bypass:   %s (%s; locks work on both sides, and files opened for reading and writing are not cached)\n", cli.OneLine(mounts.Describe(used, 5)), recordedBypass(st))
		}
		if len(idle) > 0 {
			fmt.Fprintf(w, "bypass:   %s (no process has a file of the project open there, so everything stays cached; %s)\n", cli.OneLine(mounts.Describe(idle, 5)), recordedBypass(st))
		}
	}
}

const maxGaps = 5

// printCrash prints a note if the last mount ended by itself. The note names the processes that had
// their working directory in the mount.
func printCrash(e *cli.Env, state string) {
	crash, ok := supervisor.ReadCrash(state)
	if !ok {
		return
	}
	fmt.Fprintf(e.Stdout, "  the last mount ended by itself at %s (%s)\n", crash.Time.Format("2006-01-02 15:04:05"), cli.OneLine(crash.How))
	for _, q := range crash.Inside {
		if mounts.Running(q.PID, q.Start) {
			fmt.Fprintf(e.Stdout, "  must cd again: %s\n", cli.OneLine(q.String()))
		}
	}
}

func printDetails(e *cli.Env, st wire.Status) {
	p, w := e.Paint(), e.Stdout
	if st.Mounted {
		fmt.Fprintf(w, "capture:  %s (mountd pid %d)\n", captureLine(p, st), st.MountdPID)
	}
	if st.Baseline.Done {
		fmt.Fprintln(w, "baseline: "+baselineLine(st.Baseline, e.Now()))
	}
	fmt.Fprintf(w, "store:    %s of %s, %s on disk, %s free%s\n", text.Count(st.Store.Versions, "version"), text.Count(st.Store.Files, "file"), text.Bytes(st.Store.DiskBytes), text.Bytes(st.Store.FreeBytes), lagText(st.Store.Lag))
	if text, ok := st.Index["text"].(string); ok {
		fmt.Fprintln(w, "index:    "+cli.OneLine(text))
	}
	if st.Results != nil && st.Results.Text != "" {
		fmt.Fprintln(w, "results:  "+cli.OneLine(st.Results.Text))
	}
	if st.Remote != nil && st.Remote.Error == "" {
		fmt.Fprintln(w, "remote:   "+remoteLine(p, *st.Remote, e.Now()))
	}
	if g := st.Git; g != nil {
		fmt.Fprintln(w, "git kept: "+gitLine(*g, e.Now()))
	}
	if st.Sessions > 0 {
		fmt.Fprintf(w, "sessions: %d live\n", st.Sessions)
	}
	if setup.GitAsks(e, st.Root) {
		fmt.Fprintf(w, "git:      asks the mount what changed\n")
	}
	fmt.Fprintf(w, "state:    %s (daemon pid %d, version %s)\n", cli.Quote(st.State), st.DaemonPID, st.Version)
}

// remoteLine returns how much of the history has been sent to its bucket.
func remoteLine(p cli.Paint, r wire.RemoteState, now time.Time) string {
	line := "all sent"
	if r.Unsent > 0 {
		line = text.Count(int(r.Unsent), "version") + " not yet sent"
	}
	if r.Error != "" {
		line += ", " + p.Red("fails") + " since " + cli.Stamp(r.Since, now) + ": " + cli.OneLine(r.Error)
	}
	return line + " (cachebro remote)"
}

func captureLine(p cli.Paint, st wire.Status) string {
	c := st.Capture
	if c.State == "stopped" {
		return p.Red("stopped") + " since " + c.Since.Local().Format("15:04:05") + ": " + cli.OneLine(c.Reason)
	}
	line := p.Green("on")
	if c.Queue > 0 {
		line += fmt.Sprintf(", %s queued", text.Count(c.Queue, "content"))
	}
	if c.Spooled > 0 {
		line += fmt.Sprintf(", %s in the spool", text.Bytes(c.Spooled))
		if c.MaxSpool > 0 {
			line += " of " + text.Bytes(c.MaxSpool)
		}
		if c.MaxSpool > 0 && c.Spooled > c.MaxSpool {
			line += " (it is full, so contents stay in their files for now; a process that would destroy one waits up to 2 s for the store, after which the content is lost)"
		}
	}
	return line + fmt.Sprintf(", %s, %s", text.Count(c.Inodes, "inode"), text.Count(c.Handles, "open file"))
}

func baselineLine(b wire.Baseline, now time.Time) string {
	switch {
	case b.Done:
		return fmt.Sprintf("done, %s, %s, in %s", text.Count(b.Files, "file"), text.Bytes(b.Bytes), b.Ended.Sub(b.Started).Round(10*time.Millisecond))
	case b.Running && b.Total > b.Files:
		return fmt.Sprintf("%d of %s (%d %%), %s, for %s", b.Files, text.Count(b.Total, "file"), 100*b.Files/b.Total, text.Bytes(b.Bytes), now.Sub(b.Started).Round(time.Second))
	case b.Running:
		return fmt.Sprintf("%s so far, %s", text.Count(b.Files, "file"), text.Bytes(b.Bytes))
	}
	return "not yet made"
}

func lagText(lag uint64) string {
	if lag == 0 {
		return ""
	}
	return fmt.Sprintf(", %s in the spool not yet stored", text.Count(lag, "record"))
}

// Project is a project that is mounted here or has a history.
type Project struct {
	Root       string `json:"root"`
	Mountpoint string `json:"mountpoint,omitempty"`
	State      string `json:"state,omitempty"`
	Answers    bool   `json:"answers"`
	Error      string `json:"error,omitempty"`
	Versions   uint64 `json:"versions,omitempty"`
	Gaps       int64  `json:"gaps,omitempty"`
	Counted    bool   `json:"-"` // a running daemon has returned Versions and Gaps
}

// Projects returns the projects that are mounted here or have a history of this user's.
func Projects(ctx context.Context, e *cli.Env) ([]Project, error) {
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil, err
	}
	var lines []Project
	seen := map[string]bool{}
	for _, m := range overlays {
		l := Project{Root: m.Source, Mountpoint: m.Point}
		if err := mounts.Answers(m.Point, 2*time.Second); err != nil {
			l.Error = err.Error()
		} else {
			l.Answers = true
		}
		if state, err := e.Paths().State(m.Source); err == nil {
			l.State, seen[state] = state, true
		}
		if l.Answers {
			// Ask only daemons that are already running, because a list must not start any.
			hello := wire.Hello{Version: cli.Version, Client: "cli", Root: m.Source}
			if c, err := wire.Dial(ctx, e.Paths(), hello, wire.Timeouts{Connect: time.Second, Answer: 2 * time.Second}); err == nil {
				if st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{}); err == nil {
					l.Counted = true
					l.Versions, l.Gaps = st.Store.Versions, st.GapCount
				}
				c.Close()
			}
		}
		lines = append(lines, l)
	}
	if base, err := e.Paths().StateBase(); err == nil {
		states, _ := filepath.Glob(filepath.Join(base, "*-????????????????"))
		for _, s := range states {
			if !seen[s] {
				lines = append(lines, Project{Root: mounting.RootOf(s), State: s})
			}
		}
	}
	return lines, nil
}

func statusAll(ctx context.Context, e *cli.Env, asJSON bool) error {
	lines, err := Projects(ctx, e)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if asJSON {
			b, err := json.Marshal(l)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.Stdout, "%s\n", b)
			continue
		}
		switch {
		case l.Error != "":
			fmt.Fprintf(e.Stdout, "%s: %s (cachebro umount %s)\n", cli.Quote(l.Mountpoint), cli.OneLine(l.Error), cli.Arg(l.Mountpoint))
		case l.Mountpoint != "" && !l.Counted:
			fmt.Fprintf(e.Stdout, "%s: mounted; its daemon is not running\n", cli.Quote(l.Mountpoint))
		case l.Mountpoint != "":
			fmt.Fprintf(e.Stdout, "%s: mounted, %s, %s\n", cli.Quote(l.Mountpoint), text.Count(l.Versions, "version"), text.Count(l.Gaps, "gap"))
		default:
			name := l.Root
			if name == "" {
				name = filepath.Base(l.State)
				name = name[:strings.LastIndexByte(name, '-')]
			}
			where := "not mounted"
			if own, err := e.Paths().State(wire.OutsideRoot); err == nil && own == l.State {
				name, where = wire.OutsideRoot, "outside of projects (cachebro run)"
			}
			fmt.Fprintf(e.Stdout, "%s: %s, history in %s\n", cli.Quote(name), where, cli.Quote(l.State))
		}
	}
	if len(lines) == 0 && !asJSON {
		fmt.Fprintln(e.Stderr, "no project is mounted or has a history")
	}
	return nil
}

// gitLine returns how many of git's own files were saved, and since when some are missing.
func gitLine(g wire.GitKept, now time.Time) string {
	s := text.Count(g.Files, "file") + " of git's own, saved when they were replaced or removed, " + text.Bytes(g.Bytes)
	if g.Files > 0 {
		s += ", since " + cli.Stamp(g.Oldest, now)
	}
	s += fmt.Sprintf("; %s, %s at most (undo --git)", text.Count(g.MaxDays, "day"), text.Bytes(g.MaxBytes))
	if !g.Wants.IsZero() {
		s += "; some files that git lost before " + cli.Stamp(g.Wants, now) + " were deleted to make room"
	}
	return s
}

// recordedBypass describes how changes that bypass the mount are recorded.
func recordedBypass(st wire.Status) string {
	if st.Watched {
		return "changes made there are recorded as they happen"
	}
	return "changes made there are found at the next command that looks for them, and have no author"
}
